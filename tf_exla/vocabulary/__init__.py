"""The ops that passes know: names, axis rules, flops, and how they are made."""
