"""Complete checkpoints, copied ahead and verified."""
