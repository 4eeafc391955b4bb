"""How a GKE cluster that was found is reached: its address, its certificate, our tokens.

The rule: a cluster without an address or a certificate is not reached by a guess, and is told with
what is missing. Read ``endpoint``.
"""

from collections.abc import Awaitable, Callable

from regions.gcp.errors import AccessError
from regions.gcp.fleet.clusters import GkeCluster
from regions.kueue.credentials import Endpoint


def endpoint(cluster: GkeCluster, token: Callable[[], Awaitable[str]]) -> Endpoint:
    """Return where a cluster answers and with which tokens. Raises AccessError.

    The name that Google keeps for a cluster has a certificate that everybody knows, and can be
    reached from outside of its network: where there is one it is taken.
    """
    name = cluster.key.name
    if cluster.dns_host:
        return Endpoint(host=cluster.dns_host, ca_pem="", token=token)
    if not cluster.host:
        raise AccessError(f"GKE cluster {name} tells no address of its control plane")
    if not cluster.ca_pem:
        raise AccessError(f"GKE cluster {name} tells no certificate to know it by")
    return Endpoint(host=cluster.host, ca_pem=cluster.ca_pem, token=token)
