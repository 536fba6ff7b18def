"""The passes, each `Graph -> Graph`: the same object where nothing changed."""
