"""Content to where it is wanted: checkpoints and bundles between stores, images between registries.

The rule of this package: what a reader can find is whole. A manifest is written last and removed
first, so a copy that was interrupted at any point is never taken for a replica. It knows stores,
registries and bytes, and neither the broker nor the regions that ask for the copies.
"""
