"""What is known of a project's surroundings, how old it is, and from where.

The rule: each thing is asked for in its own time and keeps its own age; one that fails keeps what
was known, and says so; advice is asked for only where a run wants machines. Read ``Survey.look``,
then ``Survey.known``.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

from regions.gcp.advice import Advice
from regions.gcp.errors import GoogleError
from regions.gcp.fleet.clusters import Fleet
from regions.gcp.fleet.hearing import Heard, PoolSignal, hear
from regions.gcp.quota import UNLIMITED, Quota, Quotas

T = TypeVar("T")

FLEET_EVERY_S = 60.0
QUOTA_EVERY_S = 300.0
ADVICE_EVERY_S = 600.0
MAX_WISHES = 50
"""Questions for advice at one look; those that were asked longest ago go first."""
ADVICE_WITHIN_S = 30.0
"""After so long no more of them are asked at a look: one that is slow does not age the clusters."""
_MODELS = {"SPOT": "SPOT", "FLEX": "FLEX_START", "ON_DEMAND": "STANDARD"}


class Lister(Protocol):
    """Who lists clusters: ``fleet.listing.FleetLister``."""

    async def look(self) -> Fleet:
        """Return all clusters. Raises GoogleError."""
        ...


class Adviser(Protocol):
    """Who tells quota and advice: ``compute.ComputeApi``."""

    async def quotas(self, regions: tuple[str, ...]) -> Quotas:
        """Return the quota in some regions. Raises GoogleError."""
        ...

    async def advice(self, region: str, machine: str, count: int, model: str) -> tuple[Advice, ...]:
        """Return how likely a region's zones give machines. Raises GoogleError."""
        ...


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class Wish:
    """Machines that some run waits for: so many at once."""

    region: str
    machine: str
    capacity_type: str
    nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """One thing that is known of a region's capacity, in words."""

    what: str
    words: str
    source: str
    age_s: float


class Survey:
    """One project's surroundings. ``now`` is a monotonic clock's seconds."""

    def __init__(self, lister: Lister, adviser: Adviser, now: Callable[[], float]) -> None:
        self._lister = lister
        self._adviser = adviser
        self._now = now
        self._asked_s: dict[str | Wish, float] = {}
        self._troubles: dict[str | Wish, str] = {}
        self._heard = Heard()
        self._fleet: tuple[float, Fleet] | None = None
        self._quotas: tuple[float, Quotas] | None = None
        self._advice: dict[Wish, tuple[float, tuple[Advice, ...]]] = {}

    @property
    def fleet(self) -> Fleet | None:
        """The clusters as they were last told, None before the first answer."""
        return self._fleet[1] if self._fleet else None

    @property
    def fleet_age_s(self) -> float | None:
        """How long ago the clusters were told, in seconds; None before the first answer."""
        return self._now() - self._fleet[0] if self._fleet else None

    @property
    def troubles(self) -> tuple[str, ...]:
        """What could not be asked, in sentences for ops."""
        return tuple(self._troubles.values())

    async def look(self, wishes: tuple[Wish, ...]) -> tuple[PoolSignal, ...]:
        """Ask for what is due; return what is news of pools. It raises nothing of Google's."""
        signals: tuple[PoolSignal, ...] = ()
        fleet = await self._due("clusters", FLEET_EVERY_S, self._lister.look)
        if fleet is not None:
            self._fleet = (self._now(), fleet)
            self._heard, signals = hear(self._heard, fleet, self._now())
        await self._look_at_quota(wishes)
        await self._look_at_advice(wishes)
        return signals

    def advice(self, wish: Wish) -> tuple[float, tuple[Advice, ...]] | None:
        """Return the advice on a wish and its age in seconds, None where there is none."""
        if wish not in self._advice:
            return None
        seen_s, found = self._advice[wish]
        return self._now() - seen_s, found

    def quota(self, region: str, accelerator: str, capacity_type: str) -> Quota | None:
        """Return the quota that such machines draw on, None where none is known."""
        return self._quotas[1].find(region, accelerator, capacity_type) if self._quotas else None

    def most_gpus(self, region: str, accelerator: str, capacity_type: str) -> int | None:
        """Return how many such GPUs the project may have at once, None where nothing bounds it."""
        return self._quotas[1].most(region, accelerator, capacity_type) if self._quotas else None

    def known(self, accelerator: str, wish: Wish) -> tuple[Known, ...]:
        """Return in words what is known of the capacity for a wish of an accelerator's machines."""
        found = []
        quota = self.quota(wish.region, accelerator, wish.capacity_type)
        if quota is not None and self._quotas is not None:
            age_s = self._now() - self._quotas[0]
            found.append(
                Known(what="GPU quota", words=_room(quota), source=quota.source, age_s=age_s)
            )
        if advised := self.advice(wish):
            zones = ", ".join(f"{each.zone} {each.obtainability:.2f}" for each in advised[1])
            found.append(
                Known(
                    what="capacity advice",
                    words=zones or "no zone",
                    source="Compute Engine's advice",
                    age_s=advised[0],
                )
            )
        return tuple(found)

    async def _look_at_quota(self, wishes: tuple[Wish, ...]) -> None:
        clusters = self._fleet[1].clusters.values() if self._fleet else ()
        regions = {each.region for each in wishes} | {each.region for each in clusters}
        if not regions:
            return
        asked = tuple(sorted(regions))
        quotas = await self._due("quota", QUOTA_EVERY_S, lambda: self._adviser.quotas(asked))
        if quotas is None:
            return
        self._quotas = (self._now(), quotas)
        if quotas.untold:
            self._troubles["quota"] = f"quota is not told by {', '.join(quotas.untold)}"

    async def _look_at_advice(self, wishes: tuple[Wish, ...]) -> None:
        wanted = {each for each in wishes if each.capacity_type in _MODELS}
        for wish in self._advice.keys() - wanted:
            del self._advice[wish]  # nobody wants it any more, and it is not kept up
        first = sorted(wanted, key=lambda each: (self._asked_s.get(each, float("-inf")), each))
        self._forget(wanted)
        began_s = self._now()
        for wish in first[:MAX_WISHES]:
            if self._now() - began_s >= ADVICE_WITHIN_S:
                return
            found = await self._due(wish, ADVICE_EVERY_S, partial(self._ask_advice, wish))
            if found is not None:
                self._advice[wish] = (self._now(), found)

    async def _ask_advice(self, wish: Wish) -> tuple[Advice, ...]:
        model = _MODELS[wish.capacity_type]
        return await self._adviser.advice(wish.region, wish.machine, wish.nodes, model)

    def _forget(self, wanted: set[Wish]) -> None:
        for kept in (self._asked_s, self._troubles):
            for gone in [each for each in kept if isinstance(each, Wish) and each not in wanted]:
                del kept[gone]

    async def _due(
        self, what: str | Wish, every_s: float, ask: Callable[[], Awaitable[T]]
    ) -> T | None:
        """Ask if it is time to, and return the answer; None: it was not, or it failed."""
        if self._now() - self._asked_s.get(what, float("-inf")) < every_s:
            return None
        self._asked_s[what] = self._now()
        try:
            answer = await ask()
        except GoogleError as error:
            self._troubles[what] = f"{_called(what)} could not be read: {error}"
            return None
        self._troubles.pop(what, None)
        return answer


def _called(what: str | Wish) -> str:
    if isinstance(what, str):
        return what
    return f"advice on {what.capacity_type} {what.machine} in {what.region}"


def _room(quota: Quota) -> str:
    if quota.limit is None:
        return "a limit that is not told"
    if quota.limit >= UNLIMITED:
        return "no limit"
    if quota.used is None:
        return f"{quota.limit} at most, how many are in use is not told"
    return f"{quota.room} of {quota.limit} free"
