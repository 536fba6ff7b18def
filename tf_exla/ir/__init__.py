"""The representation of programs: graphs, what is asked of ops, axis rules, bounds of sizes."""
