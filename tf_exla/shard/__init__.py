"""One program on several devices: loops whose iterations, the shards, run on devices side by side."""
