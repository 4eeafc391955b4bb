"""Google's clients, made from an identity (imports all of them).

The rule: a client renews its own tokens, and asks nothing before it is asked. Tests make the same
clients on a channel to a server of their own. Read it as two constructors.
"""

from google.cloud import billing_v1, container_v1

from regions.gcp.identity import Identity


def fleet_client(identity: Identity) -> container_v1.ClusterManagerAsyncClient:
    """Return a client of GKE's ClusterManager."""
    return container_v1.ClusterManagerAsyncClient(credentials=identity.credentials)


def catalog_client(identity: Identity) -> billing_v1.CloudCatalogAsyncClient:
    """Return a client of the billing catalog."""
    return billing_v1.CloudCatalogAsyncClient(credentials=identity.credentials)
