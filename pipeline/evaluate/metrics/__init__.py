"""The metrics that ours is compared with."""
