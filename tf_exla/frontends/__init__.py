"""Front ends: what turns a framework's program into a `Graph` and back."""
