"""One program on several devices: loops whose iterations, the shards, run side by side."""
