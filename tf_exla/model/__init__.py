"""Models of a plan: memory, lifetimes of buffers, time, and the settings of a plan."""
