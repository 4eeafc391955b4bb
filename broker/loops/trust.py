"""Whether what answers as a region's store is the one that the log knows, and this broker's.

The rule: a store is hostile input. What is written in it is believed only as far as it is signed
with the log's own key, which no store holds: so that a newer life of this very data stops this one
(R1), and anything else that should not be there puts one region out of use, with its reason, and
stops nobody. Read ``judge`` first.
"""

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from broker.history.regional import BrokerState, RegionState, StoreDoubt
from broker.model.reasons import Reason
from regions.cluster import StoreClaims
from regions.launcher import layout, restore

NAME_SHOWN = 8  # characters of a store's name that tell two of them apart
SIGNED_CHARACTERS = 32  # of a claim's signature: 128 bits
SIGNATURES_KEPT = 512  # the same few claims are read at every look


@dataclass(frozen=True, slots=True, kw_only=True)
class Sound:
    """It is the store that the log knows, and this life is written down in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unclaimed:
    """Nothing speaks against it, and this life has not been written down in it yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Superseded:
    """It shows another life of this very data, which goes before this one."""

    message: str


Verdict = Sound | Unclaimed | Superseded | StoreDoubt


class Settings(Protocol):
    """What the log knows of regions, and of its own life."""

    def region(self, region: str) -> RegionState:
        """Return what the log knows of a region."""
        ...

    def broker(self) -> BrokerState:
        """Return the broker's own state."""
        ...


class Trust:
    """Judges the stores of one broker's regions by its log."""

    def __init__(self, log: Settings, regions: Iterable[str]) -> None:
        self._log = log
        self._regions = tuple(sorted(regions))

    def known(self, region: str) -> RegionState:
        """Return what the log knows of a region now.

        Whoever looks asks before the look: a store that was claimed while it was read has not lost
        what it did not have yet.
        """
        return self._log.region(region)

    def judge(self, known: RegionState, claims: StoreClaims) -> Verdict:
        """Return what to make of a region's store, by what was ``known`` before it was read."""
        region = known.id
        others = {
            store: other
            for other in self._regions
            if other != region and (store := self._log.region(other).store)
        }
        return judge(known, self._log.broker(), claims, others)


def judge(
    region: RegionState, broker: BrokerState, claims: StoreClaims, others: Mapping[str, str]
) -> Verdict:
    """Return what to make of a region's store; ``others`` are the other regions' by their names."""
    proven = {n for n, name in claims.lives.items() if _is_signed(broker.key, claims, n, name)}
    own = life_name(broker, claims.identity)
    if restore.is_superseded(broker.incarnation, proven):
        return Superseded(message=_superseded(region.id, broker, max(proven)))
    if broker.incarnation in proven and claims.lives[broker.incarnation] != own:
        return Superseded(
            message=f"{region.id}: this backup was restored twice, and the other life of it, number"
            f" {broker.incarnation} too, was first here: restore it anew, or stop the other one"
        )
    if region.store and not claims.identity:
        return StoreDoubt(reason=Reason.STORE_WIPED, message=_wiped(region))
    if region.store not in ("", claims.identity):
        return StoreDoubt(reason=Reason.STORE_REPLACED, message=_replaced(region, claims.identity))
    if claims.identity in others:
        other = others[claims.identity]
        message = f"the store of {region.id} is that of {other}: each region needs its own"
        return StoreDoubt(reason=Reason.STORE_REPLACED, message=message)
    foreign = claims.lives.keys() - proven
    if foreign:
        message = _not_ours(region.id, max(foreign))
        return StoreDoubt(reason=Reason.STORE_NOT_OURS, message=message)
    is_ours = bool(region.store) and broker.incarnation in proven
    return Sound() if is_ours else Unclaimed()


def life_name(broker: BrokerState, store: str) -> str:
    """Return how this life writes itself down in a store of that name."""
    began_s = 0.0 if broker.began is None else broker.began.wall_s
    said = f"{broker.incarnation}-{began_s:.6f}"
    return f"{said}-{_signature(broker.key, store, said)}"


def _is_signed(key: str, claims: StoreClaims, number: int, name: str) -> bool:
    said, _, signature = name.rpartition("-")
    expected = _signature(key, claims.identity, said)
    # As bytes: compared as text, a name that is not ASCII raises.
    is_signed = hmac.compare_digest(signature.encode(), expected.encode())
    return is_signed and said.startswith(f"{number}-")


@lru_cache(maxsize=SIGNATURES_KEPT)
def _signature(key: str, store: str, said: str) -> str:
    """Sign with the store's name too: a claim that was copied into another store proves nothing."""
    text = f"{store} {said}".encode(errors="replace")
    return hmac.new(key.encode(), text, hashlib.sha256).hexdigest()[:SIGNED_CHARACTERS]


def _superseded(region: str, broker: BrokerState, newest: int) -> str:
    return (
        f"{region}: life {newest} of this data is at work, restored from a backup, and this is life"
        f" {broker.incarnation}: the newer one goes on with every run; leave this brokerd stopped,"
        " and take its data directory away"
    )


def _wiped(region: RegionState) -> str:
    return (
        f"the store of {region.id} has lost its name ({region.store[:NAME_SHOWN]}): it was wiped,"
        " or another disk stands in its place. Put the right one back, or go on without what was"
        f" in it: broker regions accept-store {region.id}"
    )


def _replaced(region: RegionState, found: str) -> str:
    shown = found[:NAME_SHOWN] if layout.is_name(found) else "no name of ours"
    return (
        f"the store of {region.id} is another one ({shown}, not {region.store[:NAME_SHOWN]})."
        " Put the right one back, or go on with this one: broker regions accept-store"
        f" {region.id}"
    )


def _not_ours(region: str, number: int) -> str:
    return (
        f"the store of {region} holds {layout.incarnation_key(number)}, which is not of this"
        " broker's data: another broker works there, or somebody put it there. Give this broker a"
        " store of its own, or remove that object"
    )
