"""One cluster: see it, make it so. Knows no broker."""
