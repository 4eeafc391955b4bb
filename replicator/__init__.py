"""Content to where it is wanted. Knows no broker."""
