"""The passes in their order, and their result, a plan."""
