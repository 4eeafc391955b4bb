"""How often a peer may be refused before it has to wait.

The rule: what fails is counted twice, by where it comes from, and by the token that it claims to be
if there is one of that id. The first count says what is told, so that no answer tells which ids
there are; the second one whether a good token passes. So nobody can guess on, and a colleague
behind the same address is not shut out. Read ``Tries.wait_s`` first.
"""

import ipaddress
from collections import OrderedDict
from collections.abc import Callable
from urllib.parse import unquote

TRIES = 10  # at once
REFILL_S = 6.0  # one more try after so long
KEPT_MAX = 4_096  # peers that are remembered; the one that failed longest ago is forgotten first

Key = tuple[str, str]


class Tries:
    """Failed tries by peer and token id. ``clock`` returns seconds that never go back."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        # (tries that were left, as of when)
        self._left: OrderedDict[Key, tuple[float, float]] = OrderedDict()

    def wait_s(self, key: Key) -> float:
        """Return how long nothing more is looked at of a key, 0 when it may try."""
        return max(0.0, (1.0 - self._now(key)) * REFILL_S)

    def failed(self, key: Key) -> None:
        """Count one failure; one that comes while it has to wait makes that wait begin anew."""
        self._left[key] = (max(0.0, self._now(key) - 1.0), self._clock())
        self._left.move_to_end(key)
        if len(self._left) > KEPT_MAX:
            self._left.popitem(last=False)

    def _now(self, key: Key) -> float:
        if key not in self._left:
            return TRIES
        left, since_s = self._left[key]
        return min(float(TRIES), left + (self._clock() - since_s) / REFILL_S)


def peer_of(said: str) -> str:
    """Return what gRPC's name of a peer is counted as: its address, and of IPv6 the network."""
    kind, _, rest = unquote(said).partition(":")
    host = rest.rpartition(":")[0].strip("[]").partition("%")[0]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return kind[:16]
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)
