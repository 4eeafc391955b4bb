"""One thing that was looked at in a cluster because a person asked."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterCheck:
    """What was found. ``remedy`` is what mends it, empty when nothing has to be.

    ``cluster`` is empty for what all clusters of a region use.
    """

    cluster: str
    subject: str
    is_well: bool
    message: str
    remedy: str = ""
