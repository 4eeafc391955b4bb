"""A project's GKE clusters and their node pools, as Google tells of them.

The rule: a listing in which zones are missing is incomplete, and what is not in it is unknown; only
a zone that answered can say that a cluster is gone.

    pools.py     from Google's message of a node pool to a frozen value; pure
    clusters.py  the same of a cluster, and of a listing; what one listing adds to another; pure
    hearing.py   from the conditions of pools to signals about capacity; pure
    matching.py  which pools a flavor gets its nodes from; pure
    listing.py   asks for the list (imports Google's client)
"""
