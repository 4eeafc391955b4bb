"""The broker's hand in a store: what it reads, what it need not read again, what it writes once."""

from pathlib import Path
from typing import BinaryIO

import pytest

from regions import gatehouse
from regions.cluster import StoreClaims
from regions.gatehouse import Closed, PlacementInStore, RunInStore
from regions.launcher import codec, layout
from regions.launcher.codec import Unreadable
from regions.launcher.freshness import GateWatch
from regions.launcher.reading import Absent, Unreachable
from regions.launcher.store import DirectoryStore, Store, StoreUnreachable

RUN = "run"
KEYS = layout.RunKeys(RUN)
A, B = "a" * 32, "b" * 32
EPOCH = layout.EpochId(number=1, nonce="c" * 32)
GRANT = layout.Grant(
    placement="p1",
    epoch=EPOCH,
    world_size=2,
    incarnation=1,
    resume_from=None,
    bundle=None,
    seals=(),
)
STARTED = layout.Started(grant_nonce=EPOCH.nonce, placement="p1", nonces=(A, B))
END = layout.End(
    rank=1,
    nonce=B,
    kind=layout.EXITED,
    cause="command",
    exit_code=0,
    signal=None,
    was_asked=False,
    at_unix_s=1.0,
)
REPORT = layout.Report(
    rank=0,
    nonce=A,
    beat=1,
    phase=layout.RUNNING,
    step=7,
    loss=0.5,
    samples=None,
    is_drained=False,
    drained_step=None,
)


class Counting:
    """A store that counts what is read of it, and can fall silent."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self.read: list[str] = []
        self.is_silent = False

    def get(self, key: str) -> BinaryIO | None:
        self._answer()
        self.read.append(key)
        return self._inner.get(key)

    def list(self, prefix: str) -> tuple[str, ...]:
        self._answer()
        return self._inner.list(prefix)

    def create_if_absent(self, key: str, data: bytes) -> bool:
        self._answer()
        return self._inner.create_if_absent(key, data)

    def put(self, key: str, data: bytes) -> None:
        self._answer()
        self._inner.put(key, data)

    def delete(self, key: str) -> None:
        self._answer()
        self._inner.delete(key)

    def _answer(self) -> None:
        if self.is_silent:
            raise StoreUnreachable("silent")


@pytest.fixture
def store(tmp_path: Path) -> Counting:
    return Counting(DirectoryStore.create(str(tmp_path / "root")))


def stand(store: Store, rank: int, nonce: str, count: int) -> None:
    gate = layout.Gate(rank=rank, nonce=nonce, count=count)
    store.put(KEYS.gate("p1", nonce), codec.write_gate(gate))


def see(
    store: Store,
    known: RunInStore | None = None,
    closed: Closed | None = None,
    now_s: float = 0.0,
) -> RunInStore:
    return gatehouse.read_run(store, RUN, known, closed or Closed(), now_s)


def test_nothing_there_is_an_empty_run(store: Counting) -> None:
    assert see(store) == RunInStore(run_key=RUN)


def test_a_gang_is_whole_when_the_observer_saw_every_count_move(store: Counting) -> None:
    stand(store, 0, A, 1)
    stand(store, 1, B, 1)
    first = see(store, now_s=100.0)
    assert first.placements["p1"].whole_gang(2, 100.0, 5.0) is None
    stand(store, 0, A, 2)
    stand(store, 1, B, 2)
    second = see(store, first, now_s=101.0).placements["p1"]
    assert second.whole_gang(2, 101.0, 5.0) == (A, B)
    assert second.whole_gang(2, 107.0, 5.0) is None
    assert second.standing(101.0, 5.0) == {0: A, 1: B}


def test_who_left_the_gate_does_not_stand_there_and_its_end_counts_for_the_epoch(
    store: Counting,
) -> None:
    stand(store, 1, B, 1)
    left = layout.End(
        rank=1,
        nonce=B,
        kind=layout.LEFT_GATE,
        cause="gate_timeout",
        exit_code=None,
        signal=None,
        was_asked=False,
        at_unix_s=1.0,
    )
    store.create_if_absent(KEYS.gate_end("p1", B), codec.write_end(left))
    gatehouse.write_grant(store, RUN, GRANT)
    seen = see(store)
    assert seen.placements["p1"].watch.sightings == ()
    assert seen.epochs[EPOCH].ends == {B: left}


def test_one_look_reads_everything_and_the_next_only_what_can_have_changed(
    store: Counting,
) -> None:
    gatehouse.write_grant(store, RUN, GRANT)
    store.create_if_absent(KEYS.owner(1), codec.write_owner(STARTED))
    store.put(KEYS.report(EPOCH, A), codec.write_report(REPORT))
    store.create_if_absent(KEYS.end(EPOCH, B), codec.write_end(END))
    store.put(f"{KEYS.checkpoint(EPOCH, 5)}/weights", b"x")
    store.put(f"{KEYS.checkpoint(EPOCH, 5)}/.complete", b"x")
    store.put(f"{KEYS.checkpoint(EPOCH, 9)}/weights", b"x")
    first = see(store)
    seen = first.epochs[EPOCH]
    assert (seen.owner, seen.drain, seen.fence) == (STARTED, Absent(), Absent())
    assert (seen.reports, seen.ends) == ({A: REPORT}, {B: END})
    assert (seen.checkpoints, seen.unfinished) == ((5,), (9,))
    store.read.clear()
    assert see(store, first) == first
    assert store.read == [KEYS.drain(EPOCH), KEYS.fence(EPOCH), KEYS.report(EPOCH, A)]
    store.read.clear()
    over = Closed(epochs=frozenset({EPOCH}), placements=frozenset({"p1"}))
    store.create_if_absent(KEYS.end(EPOCH, A), b"anything")
    assert see(store, first, over) == first
    assert store.read == []


def test_what_cannot_be_read_is_neither_there_nor_absent(store: Counting) -> None:
    store.put(KEYS.grant("p1"), b"garbage")
    store.put(KEYS.owner(1), b"{}")
    seen = see(store)
    assert isinstance(seen.placements["p1"].grant, Unreadable)
    assert isinstance(seen.owners[1], Unreadable)


def test_a_silent_store_is_no_empty_one(store: Counting) -> None:
    store.is_silent = True
    with pytest.raises(StoreUnreachable):
        see(store)
    assert gatehouse.revoke(store, RUN, 1, "ops") == Unreachable("silent")
    assert not gatehouse.can_withdraw(store, RUN, "p1", is_closed=False)


def test_a_revocation_answers_who_won(store: Counting) -> None:
    assert gatehouse.revoke(store, RUN, 1, "cancel") == layout.Revoked(by="cancel")
    assert gatehouse.revoke(store, RUN, 1, "again") == layout.Revoked(by="cancel")
    store.create_if_absent(KEYS.owner(2), codec.write_owner(STARTED))
    assert gatehouse.revoke(store, RUN, 2, "cancel") == STARTED


def test_fence_and_drain_are_written_once(store: Counting) -> None:
    gatehouse.write_grant(store, RUN, GRANT)
    order = layout.DrainOrder(reason="move", grace_s=3.0, deadline_unix_s=None)
    gatehouse.drain(store, RUN, EPOCH, order)
    gatehouse.fence(store, RUN, EPOCH, "first")
    gatehouse.fence(store, RUN, EPOCH, "second")
    seen = see(store).epochs[EPOCH]
    assert (seen.drain, seen.fence) == (order, layout.Fence(reason="first"))


def test_a_restored_broker_is_shown_owners_by_number_and_grants(store: Counting) -> None:
    gatehouse.write_grant(store, RUN, GRANT)
    gatehouse.revoke(store, RUN, 4, "restore")
    seen = see(store).as_seen("east")
    assert seen.grants == (GRANT,)
    assert seen.owners == {1: Absent(), 4: layout.Revoked(by="restore")}


def test_one_life_of_the_data_claims_a_number(store: Counting) -> None:
    assert gatehouse.read_claims(store) == StoreClaims(identity="")
    assert gatehouse.claim_identity(store, "first") == "first"
    assert gatehouse.claim_identity(store, "second") == "first"
    assert gatehouse.claim_incarnation(store, 2, "one")
    assert gatehouse.claim_incarnation(store, 2, "one")
    assert not gatehouse.claim_incarnation(store, 2, "two")
    assert gatehouse.read_claims(store) == StoreClaims(identity="first", lives={2: "one"})


def test_a_gate_is_watched_across_looks_by_nonce() -> None:
    empty = PlacementInStore(watch=GateWatch(), grant=Absent())
    assert empty.whole_gang(1, 0.0, 1.0) is None
