"""The clusters that a configuration names, each behind the port, and what has to go on beside it.

The rule: what one kind of cluster needs is imported only when one of that kind is named: a broker
of embedded clusters knows no Kubernetes, and one of others no Google.

    fleet.py        the Protocols, and all clusters as one thing
    opening.py      from a configuration to that, refused where clusters stand in each other's way
    embedded.py     a cluster of this machine: started beside the broker, and again when it is gone
    kueue.py        a cluster of Kubernetes with Kueue (imports its client)
    pricing.py      what a GPU of such a cluster costs
    google.py       clusters and prices as Google tells them (imports its clients)
"""
