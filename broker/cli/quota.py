"""What of a cluster's quota is whose, and what its profiles lay over a gang, for people.

The rule: what was not seen is unknown, and never zero. Read ``quota`` first.
"""

from collections.abc import Iterator
from typing import Any

from broker.cli import words
from broker.v1 import region_pb2

HEADERS = ("GPU QUOTA", "OWN", "RESERVED", "USED", "PARKED", "BORROWABLE", "FREE")
_FIELDS = ("nominal", "reserved", "used", "parked", "borrowable", "free")


def quota(cluster: region_pb2.ClusterStatus) -> str:
    """Return a table of the quota of each queue and flavor of a cluster."""
    return words.table(
        HEADERS,
        [
            (f"{one.queue}/{one.flavor}", *(_figure(one, name) for name in _FIELDS))
            for one in cluster.flavors
        ],
    )


def laid(profile: region_pb2.PodProfile) -> Iterator[str]:
    """Yield what a profile lays over a gang, a line for each thing."""
    for part in profile.parts:
        yield f"{part.kind}: {part.message}"


def _figure(flavor: Any, field: str) -> str:
    return str(getattr(flavor, field)) if flavor.HasField(field) else "unknown"
