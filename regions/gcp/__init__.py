"""Google Cloud as a region's surroundings: its GKE clusters, prices, quota and advice.

Nothing here starts or stops a machine. What is read is said with its source and its age; what could
not be read is unknown, never absent and never zero. Importing this package imports no client of
Google's: the files that do are marked, and only a configuration that names Google leads to them.

    prices/         from the billing catalog to what one GPU costs for an hour
    fleet/          from the list of clusters to node pools, their caps and their conditions
    survey.py       asks for all of it in its time, and says how old each thing is
    quota.py        the project's GPU quota per region; pure
    advice.py       the cloud's advice as a prior that yields to evidence; pure
    shapes.py       machine types and what is in them; pure
    compute.py      quota and advice over Compute's REST interface, which needs no client
    identity.py     who we are to Google, and its tokens (imports google.auth)
    entering.py     how a cluster that was found is reached with those
    channels.py     Google's clients, made from that (imports all of them)
    calls.py        one question over gRPC and what its failure means (imports google.api_core)
    errors.py       what can go wrong
"""
