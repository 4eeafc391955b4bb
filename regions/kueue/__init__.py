"""One Kubernetes cluster with Kueue, behind the port.

It sees what others hold and what is ahead, starts gangs as JobSets, and needs no right over the
queues that it uses. The start itself is decided in the region's store.

    access.py     credentials, one client per cluster, deadlines, token refresh
    discovery.py  which API versions are served, and what we may do
    watching.py   the informer: pages, watch, bookmarks; one class for every kind
    objects/      hostile JSON to frozen values
    quota.py      what a queue could still reserve, through its cohort tree: pure
    ahead.py      who stands before a workload in its queue: pure
    flavors.py    what a flavor is, and what its nodes could hold: pure
"""
