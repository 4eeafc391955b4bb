"""A real training run taken through three regions of this machine."""
