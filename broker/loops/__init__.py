"""The shells that observe, decide through the pure packages, and then act."""
