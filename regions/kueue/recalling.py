"""Processes of started gangs that their store knows and nobody has seen: those of a former broker.

The rule: a broker that was away has not seen who went meanwhile. Each process that an ``owner``
lists wrote at its gate which pod it is, of which JobSet, on which machine of which cluster. One
that left no word of its end and is not among the pods is taken to be alive, and asked for; when the
cluster has no pod of it, what became of its machine tells the rest (``members``).

Read ``Recaller`` first.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import msgspec

from regions.cluster import EpochSeen, OwnerState
from regions.kueue import names
from regions.kueue.access import Api
from regions.kueue.clock import Clock
from regions.kueue.errors import BrokenError, ClusterError
from regions.kueue.members import Member, Members
from regions.launcher.layout import Gate
from regions.store_eye import Look

AGAIN_S = 5.0
"""How soon the cluster is asked again for those that it did not tell of."""
MOST_GANGS = 50
"""That are asked for in one call: they are named in an address, which has a length."""
PAGE_PODS = 500
MOST_PAGES = 100
"""Of one answer: whoever says each time that there is more tells nothing in the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """One process as its store tells of it, and whose it is."""

    run_key: str
    placement: str
    member: Member


class Recaller:
    """Finds what a former broker knew of a cluster's processes, and this one has to learn."""

    def __init__(
        self, api: Api, clock: Clock, members: Members, *, cluster: str, namespace: str
    ) -> None:
        self._api = api
        self._clock = clock
        self._cluster = cluster
        self._namespace = namespace
        self._members = members
        self._recalled: dict[str, Recalled] = {}
        self._asked_s: float | None = None

    def take_in(self, look: Look) -> None:
        """Take in the processes that the store knows and nobody has seen."""
        for each in unaccounted(look, self._cluster, self._members.is_known):
            self._members.recall(each.member)
            self._recalled[each.member.uid] = each

    def missing(self) -> Iterable[Recalled]:
        """Return whose pod is not there, and whose machine does not say that they are gone."""
        for each in self._recalled.values():
            member = self._now(each)
            if member is not None and member.is_alive and not member.is_unsought:
                yield each

    async def seek(self) -> None:
        """Ask for the pods of those that nobody has asked for yet, some at a time."""
        self._recalled = {uid: each for uid, each in self._recalled.items() if self._is_open(each)}
        sought = [each for each in self._recalled.values() if self._is_unsought(each)]
        now_s = self._clock.monotonic_s()
        if not sought or (self._asked_s is not None and now_s - self._asked_s < AGAIN_S):
            return
        self._asked_s = now_s
        gangs = sorted({each.member.gang for each in sought})[:MOST_GANGS]
        try:
            here = await self._pods(gangs)
        except ClusterError:
            return  # nothing was learned: they are alive until it is
        uids = {each.member.uid for each in sought if each.member.gang in gangs}
        self._members.miss(uids - here)

    async def _pods(self, gangs: list[str]) -> set[str]:
        """Return the uids of all pods of gangs as they are now. Raises ClusterError."""
        where = f"/api/v1/namespaces/{self._namespace}/pods"
        query = {
            "labelSelector": f"{names.GANG_UID} in ({','.join(gangs)})",
            "limit": str(PAGE_PODS),
        }
        here: set[str] = set()
        for _ in range(MOST_PAGES):
            answer = await self._api.ask("GET", where, query=query)
            try:
                told = msgspec.json.decode(answer, type=_Pods)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                raise BrokenError(f"the answer is no list of pods: {error}") from error
            here |= {each.metadata.uid for each in told.items}
            if not told.metadata.more:
                return here
            query = {**query, "continue": told.metadata.more}
        raise BrokenError(f"a list of more than {MOST_PAGES} pages")

    def _now(self, each: Recalled) -> Member | None:
        return self._members.get(each.member.uid)

    def _is_open(self, each: Recalled) -> bool:
        """Whether it is still the store alone that knows it, and it counts as alive."""
        member = self._now(each)
        return member is not None and member.is_alive and not member.key

    def _is_unsought(self, each: Recalled) -> bool:
        member = self._now(each)
        return member is not None and member.is_unsought


def unaccounted(look: Look, cluster: str, is_known: Callable[[str], bool]) -> Iterable[Recalled]:
    """Return a cluster's listed processes that left no word of their end, and that nobody knows."""
    for epoch in look.epochs.values():
        if epoch.owner is OwnerState.STARTED and len(epoch.ends) < len(epoch.nonces):
            for each in _of_epoch(look, epoch, cluster):
                if not is_known(each.member.uid):
                    yield each


def _of_epoch(look: Look, epoch: EpochSeen, cluster: str) -> Iterable[Recalled]:
    run = look.runs.get(epoch.key.run_key)
    in_store = run.placements.get(epoch.placement) if run is not None else None
    sightings = in_store.watch.sightings if in_store is not None else ()
    listed = {nonce: rank for rank, nonce in enumerate(epoch.nonces)}
    ended = {end.nonce for end in epoch.ends}
    for gate in (each.gate for each in sightings):
        is_open = gate.nonce in listed and gate.nonce not in ended
        # Whoever can write to the store can write any word: none of another kind is asked with.
        is_named = bool(gate.member and gate.gang) and names.is_label_value(gate.gang)
        if is_open and is_named and gate.cluster == cluster:
            yield Recalled(
                run_key=epoch.key.run_key,
                placement=epoch.placement,
                member=_member(gate, listed[gate.nonce]),
            )


def _member(gate: Gate, rank: int) -> Member:
    return Member(
        uid=gate.member,
        key="",
        gang=gate.gang,
        rank=rank,
        node=gate.node,
        node_uid="",
        created_s=0.0,
        bound_s=None,
        is_unsought=True,
    )


class _ListMeta(msgspec.Struct):
    more: str = msgspec.field(default="", name="continue")


class _PodMeta(msgspec.Struct):
    uid: str


class _Pod(msgspec.Struct):
    metadata: _PodMeta


class _Pods(msgspec.Struct):
    items: list[_Pod]
    metadata: _ListMeta
