"""A project's clusters as a listing tells them, and what one listing adds to another. Pure.

The rule: a cluster that a listing does not name is gone only if the zones that would name it have
answered. Read ``read_fleet``, then ``merged``.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from regions.gcp.fleet.pools import Pool, read_pool

MAX_CLUSTERS, MAX_POOLS, MAX_CA_BYTES = 1000, 1000, 1 << 16
ANY_ZONE = "*"
"""Stands for zones that nobody named: a list that was cut."""
_NAME = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
_ENDPOINT = re.compile(r"[A-Za-z0-9.-]{1,253}|[0-9a-fA-F:]{2,39}")
STATUSES = {
    1: "PROVISIONING",
    2: "RUNNING",
    3: "RECONCILING",
    4: "STOPPING",
    5: "ERROR",
    6: "DEGRADED",
}


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class ClusterKey:
    """Which cluster. ``location`` is a zone, or a region."""

    project: str
    location: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeCluster:
    """One cluster. ``host`` and ``ca_pem`` are how its API is reached, empty: not told.

    ``dns_host`` is the name that Google keeps for it, empty unless it answers from everywhere.

    ``is_stale``: the zones that would tell of it have not answered; it is as it was last seen.
    """

    key: ClusterKey
    region: str
    host: str
    dns_host: str
    ca_pem: str
    status: str
    pools: tuple[Pool, ...]
    doubts: tuple[str, ...]
    is_stale: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """A listing. ``missing_zones`` have not answered: it is incomplete when there are any."""

    project: str
    clusters: Mapping[ClusterKey, GkeCluster]
    missing_zones: frozenset[str]
    doubts: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether what is not in it does not exist."""
        return not self.missing_zones


def read_fleet(project: str, message: Any) -> Fleet:
    """Read a ``google.container.v1.ListClustersResponse`` in protobuf's own form."""
    doubts: list[str] = []
    found: dict[ClusterKey, GkeCluster] = {}
    missing = frozenset(each[:64] for each in message.missing_zones)
    for each in message.clusters[:MAX_CLUSTERS]:
        key = ClusterKey(project=project, location=each.location, name=each.name)
        if not (_NAME.fullmatch(each.name) and _NAME.fullmatch(each.location)):
            doubts.append(f"a cluster is called {each.name[:64]!r} in {each.location[:64]!r}")
        elif key in found:
            doubts.append(f"{key.name} in {key.location} is listed twice; the first is believed")
        else:
            found[key] = _cluster(key, each)
    if len(message.clusters) > MAX_CLUSTERS:
        doubts.append(f"only the first {MAX_CLUSTERS} of {len(message.clusters)} are looked at")
        missing |= {ANY_ZONE}
    return Fleet(project=project, clusters=found, missing_zones=missing, doubts=tuple(doubts))


def merged(before: Fleet, now: Fleet) -> Fleet:
    """Return a listing with what it could not tell of taken, as stale, from the one before."""
    silent = {
        key: replace(cluster, is_stale=True)
        for key, cluster in before.clusters.items()
        if key not in now.clusters and _is_silent(key.location, now.missing_zones)
    }
    return replace(now, clusters={**now.clusters, **silent})


def region_of(location: str) -> str:
    """Return the region of a zone, and a region as it is."""
    head, _, tail = location.rpartition("-")
    return head if head and len(tail) == 1 and tail.isalpha() else location


def _is_silent(location: str, missing: frozenset[str]) -> bool:
    """Whether somebody who would tell of a location has not answered.

    A regional cluster is told by its region; which zone's silence hides it is not documented, so
    each zone's does. ``-`` is Google's word for all of them.
    """
    regions = {region_of(each) for each in missing}
    if missing & {ANY_ZONE, "-", ""}:
        return True
    is_zone = region_of(location) != location
    return location in missing or region_of(location) in (missing if is_zone else regions)


def _cluster(key: ClusterKey, message: Any) -> GkeCluster:
    doubts: list[str] = []
    pools = tuple(read_pool(each) for each in message.node_pools[:MAX_POOLS])
    doubts.extend(f"pool {pool.name}: {each}" for pool in pools for each in pool.doubts)
    return GkeCluster(
        key=key,
        region=region_of(key.location),
        host=_host(message.endpoint, doubts),
        dns_host=_dns_host(message.control_plane_endpoints_config.dns_endpoint_config, doubts),
        ca_pem=_ca_pem(message.master_auth.cluster_ca_certificate, doubts),
        status=STATUSES.get(message.status, f"UNKNOWN_{message.status}"),
        pools=pools,
        doubts=tuple(doubts),
    )


def _host(endpoint: str, doubts: list[str]) -> str:
    if not endpoint:
        return ""
    if not _ENDPOINT.fullmatch(endpoint):
        doubts.append(f"its endpoint is {endpoint[:64]!r}")
        return ""
    return f"https://[{endpoint}]" if ":" in endpoint else f"https://{endpoint}"


def _dns_host(config: Any, doubts: list[str]) -> str:
    # Only a name of Google's own is believed without a certificate of the cluster's.
    if not (config.endpoint and config.allow_external_traffic):
        return ""
    if not config.endpoint.endswith(".gke.goog"):
        doubts.append(f"its DNS endpoint is {config.endpoint[:64]!r}, no name of Google's")
        return ""
    return _host(config.endpoint, doubts)


def _ca_pem(encoded: str, doubts: list[str]) -> str:
    if not encoded:
        return ""
    try:
        pem = base64.b64decode(encoded[: MAX_CA_BYTES * 2], validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        pem = ""
    if not pem.startswith("-----BEGIN CERTIFICATE-----") or len(pem) > MAX_CA_BYTES:
        doubts.append("its certificate cannot be read")
        return ""
    return pem
