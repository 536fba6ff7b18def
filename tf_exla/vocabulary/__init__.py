"""What the ops are that passes know: names, axis rules, flops, and how one is made."""
