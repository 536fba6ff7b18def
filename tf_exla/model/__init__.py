"""What a plan needs: memory, lifetimes of buffers, time, and the settings of a plan."""
