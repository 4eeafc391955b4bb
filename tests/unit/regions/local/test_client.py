"""What the broker's side of an embedded cluster remembers, and what it never mixes up."""

import os
import threading
from pathlib import Path
from typing import BinaryIO

import pytest

from regions.cluster import Cause, EpochKey, OwnerState, Stage, StoreClaims
from regions.gatehouse import claim_identity, revoke, write_grant
from regions.launcher import codec, layout
from regions.launcher.store import DirectoryStore
from regions.local import client, wire
from regions.local.client import _Known
from regions.local.state import Signal
from regions.store_eye import CALM_S, CLAIMS_S, RESYNC_S, StoreEye, TimedEye


def make_job(placement: str, **changes: object) -> wire.JobView:
    fields: dict[str, object] = {
        "uid": f"uid-{placement}",
        "placement": placement,
        "run_key": "run1",
        "queue": "ours",
        "flavor": "h100",
        "stage": Stage.QUEUED,
        "cause": Cause.WAITING_FOR_QUOTA,
        "message": "",
        "eta_s": None,
        "ahead": 0,
        "ahead_gpus": 0,
        "nodes_here": 0,
        "nodes_wanted": 1,
        "world_size": 1,
        "members": (),
        "labels": {},
    }
    return wire.JobView(**(fields | changes))  # type: ignore[arg-type]


def make_told(generation: int, *jobs: wire.JobView, **changes: object) -> wire.Observed:
    fields: dict[str, object] = {
        "instance": "a",
        "generation": generation,
        "now_s": 1.0,
        "is_full": False,
        "jobs": jobs,
        "queues": (),
        "signals": (),
        "blind": (),
    }
    return wire.Observed(**(fields | changes))  # type: ignore[arg-type]


def make_signal(serial: int) -> Signal:
    return Signal(
        serial=serial,
        at_s=1.0,
        queue="ours",
        flavor="h100",
        kind="STOCKOUT",
        source="p1",
        detail="",
        gpus=1,
        wait_s=None,
    )


def test_an_answer_that_comes_late_changes_nothing() -> None:
    known = _Known()
    known.take_in(make_told(5, make_job("p1", ahead=1), is_full=True))
    known.take_in(make_told(4, make_job("p1", ahead=9)))
    known.take_in(make_told(9, make_job("p1", ahead=9), instance="older"))
    assert (known.instance, known.generation) == ("a", 5)
    assert [job.ahead for job in known.jobs.values()] == [1]


def test_changes_are_joined_and_a_full_answer_replaces() -> None:
    known = _Known()
    known.take_in(make_told(1, make_job("p1"), make_job("p2"), is_full=True))
    known.take_in(make_told(2, make_job("p2", stage=Stage.ENDED)))
    assert [job.stage for job in known.jobs.values()] == [Stage.QUEUED, Stage.ENDED]
    assert list(known.open_runs()) == ["run1"]
    known.take_in(make_told(1, make_job("p3"), instance="b", is_full=True))
    assert list(known.jobs) == ["uid-p3"]


def test_signals_are_kept_once_each() -> None:
    known = _Known()
    known.take_in(make_told(1, is_full=True, signals=(make_signal(1), make_signal(2))))
    known.take_in(make_told(2, signals=(make_signal(2), make_signal(3))))
    assert [signal.serial for signal in known.signals] == [1, 2, 3]
    assert known.signal_serial == 3


def test_who_was_seen_gone_stays_gone_when_its_placement_is_forgotten() -> None:
    known = _Known()
    member = wire.MemberView(rank=0, member="m1", is_alive=False, exit_code=1, signal=None)
    known.take_in(make_told(1, make_job("p1", members=(member,)), is_full=True))
    known.take_in(make_told(1, instance="b", is_full=True))
    assert known.jobs == {}
    assert list(known.gone) == ["m1"]


def test_of_those_that_are_gone_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "MAX_GONE", 3)
    known = _Known()
    for i in range(5):
        gone = wire.MemberView(rank=0, member=f"m{i}", is_alive=False, exit_code=0, signal=None)
        known.take_in(make_told(i, make_job(f"p{i}", members=(gone,)), is_full=i == 0))
    assert list(known.gone) == ["m2", "m3", "m4"]


class HangingStore(DirectoryStore):
    """A directory whose disk does not answer until it is let."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.answers = threading.Event()
        self.asked = 0

    def list(self, prefix: str) -> tuple[str, ...]:
        self.asked += 1
        assert self.answers.wait(30.0)
        return super().list(prefix)

    def get(self, key: str) -> BinaryIO | None:
        assert self.answers.wait(30.0)
        return super().get(key)


async def test_a_store_that_hangs_is_said_and_asked_only_once(tmp_path: Path) -> None:
    DirectoryStore.create(str(tmp_path / "store"))
    store = HangingStore(str(tmp_path / "store"))
    eye = TimedEye(store, within_s=0.05)
    for _ in range(3):
        look = await eye.look((), frozenset(), 0.0)
        assert look.trouble
    assert store.asked == 1
    store.answers.set()
    eye = TimedEye(store, within_s=30.0)
    assert (await eye.look((), frozenset(), 0.0)).trouble == ""


def grant_of(number: int, nonce: str) -> layout.Grant:
    return layout.Grant(
        placement=f"p{number}-{nonce[:4]}",
        epoch=layout.EpochId(number=number, nonce=nonce),
        world_size=1,
        incarnation=1,
        resume_from=None,
        bundle=None,
        seals=(),
    )


def test_every_epoch_of_a_store_is_seen_by_who_never_heard_of_it(tmp_path: Path) -> None:
    store = DirectoryStore.create(str(tmp_path / "store"))
    write_grant(store, "old", grant_of(3, "a" * 12))
    revoke(store, "old", 3, "broker")
    revoke(store, "old", 4, "a restored broker")
    seen = StoreEye(store).look((), frozenset(), 0.0)
    assert {key: epoch.owner for key, epoch in seen.epochs.items()} == {
        EpochKey(run_key="old", number=3, nonce="a" * 12): OwnerState.REVOKED,
        EpochKey(run_key="old", number=4, nonce=""): OwnerState.REVOKED,
    }


def test_a_start_of_the_same_number_by_another_life_is_told_apart(tmp_path: Path) -> None:
    store = DirectoryStore.create(str(tmp_path / "store"))
    ours, theirs = grant_of(3, "a" * 12), grant_of(3, "b" * 12)
    write_grant(store, "run1", ours)
    owner = layout.Started(
        grant_nonce=theirs.epoch.nonce, placement=theirs.placement, nonces=("c" * 32,)
    )
    store.create_if_absent(layout.RunKeys("run1").owner(3), codec.write_owner(owner))
    seen = StoreEye(store).look((), frozenset(), 0.0)
    assert {
        key.nonce: (epoch.owner, epoch.placement, epoch.nonces)
        for key, epoch in seen.epochs.items()
    } == {
        "a" * 12: (OwnerState.REVOKED, ours.placement, ()),
        "b" * 12: (OwnerState.STARTED, theirs.placement, ("c" * 32,)),
    }


def test_what_is_over_is_read_no_more_and_what_was_removed_is_forgotten(tmp_path: Path) -> None:
    root = tmp_path / "store"
    store = HangingStore(str(DirectoryStore.create(str(root)).root))
    store.answers.set()
    claim_identity(store, "one")
    write_grant(store, "run1", grant_of(1, "a" * 12))
    revoke(store, "run1", 1, "broker")
    eye = StoreEye(store)
    first = eye.look((), frozenset(), 0.0)
    asked = store.asked
    assert eye.look((), frozenset(), 1.0).epochs == first.epochs
    assert store.asked == asked
    (root / "runs" / "run1").rename(tmp_path / "removed")
    assert eye.look((), frozenset(), RESYNC_S + 1).epochs == {}


def test_a_run_in_which_nothing_is_about_to_happen_is_read_now_and_then(tmp_path: Path) -> None:
    store = DirectoryStore.create(str(tmp_path / "store"))
    eye, calm = StoreEye(store), frozenset({"run1", "run2"})
    assert eye.look(calm, frozenset(), 0.0, calm).epochs == {}
    for run_key in calm:
        write_grant(store, run_key, grant_of(1, "a" * 12))
    later = eye.look(calm, frozenset(), CALM_S / 2, calm - {"run2"})
    assert [key.run_key for key in later.epochs] == ["run2"]
    later = eye.look(calm, frozenset(), CALM_S, calm)
    assert {key.run_key for key in later.epochs} == calm


def test_what_cannot_be_read_of_one_run_is_that_runs_alone(tmp_path: Path) -> None:
    root = tmp_path / "store"
    store = DirectoryStore.create(str(root))
    for run_key in ("a-poisoned", "b-sound"):
        write_grant(store, run_key, grant_of(1, "a" * 12))
    poisoned = root / "runs" / "a-poisoned"
    (poisoned / "e000001").mkdir()
    (poisoned / "e000001" / "owner").symlink_to("/dev/zero")
    (poisoned / "e000000").mkdir()
    (poisoned / f"e000000-{'b' * 12}").mkdir()
    (poisoned / f"e0000001-{'b' * 12}").mkdir()
    os.mkfifo(poisoned / "placements" / "pipe")
    (poisoned / "placements" / "link").symlink_to(tmp_path)
    (poisoned / f"e000002-{'b' * 12}").symlink_to(tmp_path)
    (poisoned / f"e000001-{'a' * 12}").mkdir()
    eye = StoreEye(store)
    look = eye.look((), frozenset(), 0.0)
    assert (look.trouble, dict(look.unread)) == ("", {})
    assert {key.run_key: seen.owner for key, seen in look.epochs.items()} == {
        "a-poisoned": OwnerState.UNREADABLE,
        "b-sound": OwnerState.ABSENT,
    }
    (poisoned / f"e000001-{'a' * 12}" / "report").symlink_to(tmp_path)
    revoke(store, "b-sound", 1, "broker")
    look = eye.look((), frozenset(), 1.0)
    assert (look.trouble, list(look.unread)) == ("", ["a-poisoned"])
    assert {key.run_key: seen.owner for key, seen in look.epochs.items()} == {
        "a-poisoned": OwnerState.UNREADABLE,
        "b-sound": OwnerState.REVOKED,
    }
    (poisoned / f"e000001-{'a' * 12}" / "report").unlink()
    assert dict(eye.look((), frozenset(), 2.0).unread) == {}


def test_another_store_in_its_place_shows_nothing_of_the_one_before(tmp_path: Path) -> None:
    root = tmp_path / "store"
    store = DirectoryStore.create(str(root))
    claim_identity(store, "one")
    write_grant(store, "run1", grant_of(1, "a" * 12))
    eye = StoreEye(store)
    first = eye.look((), frozenset(), 0.0)
    assert first.claims == StoreClaims(identity="one")
    assert list(first.runs) == ["run1"]
    root.rename(tmp_path / "gone")
    DirectoryStore.create(str(root))
    look = eye.look((), frozenset(), 1.0)
    assert (look.trouble, look.claims) == ("", StoreClaims(identity=""))
    assert (look.runs, look.epochs) == ({}, {})
    root.joinpath(".store").unlink()
    root.joinpath(".tmp").rmdir()
    root.rmdir()
    (tmp_path / "gone").rename(root)
    assert eye.look((), frozenset(), 2.0 + CLAIMS_S).epochs == first.epochs


def test_a_store_that_was_just_claimed_shows_its_name_at_the_next_look(tmp_path: Path) -> None:
    store = DirectoryStore.create(str(tmp_path / "store"))
    eye = StoreEye(store)
    assert eye.look((), frozenset(), 0.0).claims == StoreClaims(identity="")
    claim_identity(store, "one")
    assert eye.look((), frozenset(), 0.1).claims == StoreClaims(identity="one")


class TurningStore(DirectoryStore):
    """A store in whose place another one comes while it is read."""

    def list(self, prefix: str) -> tuple[str, ...]:
        if prefix == "runs/":
            os.replace(os.path.join(self.root, "other"), os.path.join(self.root, layout.IDENTITY))
        return super().list(prefix)


def test_what_may_be_of_two_stores_is_not_believed(tmp_path: Path) -> None:
    store = TurningStore(str(DirectoryStore.create(str(tmp_path)).root))
    claim_identity(store, "one")
    write_grant(store, "run1", grant_of(1, "a" * 12))
    (tmp_path / "other").write_text("two")
    look = StoreEye(store).look((), frozenset(), 0.0)
    assert "another store came into its place" in look.trouble
