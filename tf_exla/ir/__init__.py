"""The representation of programs: graphs, the interface to ops, axis rules, bounds of sizes."""
