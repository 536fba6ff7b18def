"""One program on several devices: loops whose iterations, the shards, run in parallel."""
