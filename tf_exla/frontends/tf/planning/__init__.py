"""Plans of captured graphs, and what runs if a plan cannot be made."""
