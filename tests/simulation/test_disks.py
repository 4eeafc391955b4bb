"""What befalls disks: the alarms that speak of it ring, and only then."""

from __future__ import annotations

import pytest

from broker.history.events import EpochStarted, Granted, Recorded, Resumed, RunEvent, Sealed
from broker.model.actor import Actor, ActorKind
from broker.model.checkpoint import CheckpointRef, EpochId
from broker.model.moment import Moment
from broker.model.reasons import Reason
from broker.model.run import CloseRule
from regions.launcher import layout
from tests.fakes.checkpoints import marker_of
from tests.fakes.region_store import Objects
from tests.simulation import laws
from tests.simulation.disks import DAMAGES, damage_by_name
from tests.simulation.record import Damage, GangTruth, Record, SealTruth
from tests.simulation.training import contents

FORMER, NOW = layout.EpochId(1, "a" * 16), layout.EpochId(2, "b" * 16)
PATH = layout.RunKeys("run").checkpoint(FORMER, 10)
SAVE = ("run", FORMER.name, 10)
FILES = contents("run", FORMER, 10, 2)
USER, BROKER = (Actor(kind=kind, name="x") for kind in (ActorKind.USER, ActorKind.BROKER))


def disk() -> Objects:
    objects = Objects(lambda: 0.0)
    for name, data in {**FILES, ".complete": marker_of(FILES)}.items():
        objects.put(f"{PATH}/{name}", data)
    return objects


def resuming(granted_s: float) -> tuple[Record, GangTruth]:
    """A gang that was granted the checkpoint at some time."""
    grant = layout.Grant(
        placement="p",
        epoch=NOW,
        world_size=2,
        incarnation=1,
        resume_from=PATH,
        bundle=None,
        seals=(),
    )
    record = Record()
    record.saves[SAVE], record.saved_s[SAVE] = FILES, 1.0
    ref = CheckpointRef(epoch=EpochId(number=1, nonce=FORMER.nonce), step=10, digest="")
    truth = record.runs["run"]
    truth.seals[FORMER.name] = SealTruth(CloseRule.SEEN_ENDED, (ref,), 5.0)
    truth.granted_s[NOW.name] = granted_s
    return record, GangTruth("run", "alpha", "p", grant, 2, granted_s)


@pytest.mark.parametrize("name", sorted({one.__name__ for one in DAMAGES} - {"_garble", "_renew"}))
def test_a_start_from_what_was_damaged_long_before_its_grant_is_noticed(name: str) -> None:
    objects, (record, gang) = disk(), resuming(granted_s=100.0)
    assert not list(laws.law_4_a_start_rests_on_what_was_sealed(record, gang, objects))
    damage_by_name(objects, PATH, name)
    assert list(laws.law_4_a_start_rests_on_what_was_sealed(record, gang, objects))
    record.damages["alpha", SAVE] = Damage(at_s=50.0, is_visible=True)
    assert list(laws.law_4_a_start_rests_on_what_was_sealed(record, gang, objects))
    # What came after the grant, or cannot be seen, nobody could have known.
    record.damages["alpha", SAVE] = Damage(at_s=99.0, is_visible=True)
    assert not list(laws.law_4_a_start_rests_on_what_was_sealed(record, gang, objects))
    record.damages["alpha", SAVE] = Damage(at_s=50.0, is_visible=False)
    assert not list(laws.law_4_a_start_rests_on_what_was_sealed(record, gang, objects))


@pytest.mark.parametrize("name", ["_garble", "_renew"])
def test_what_leaves_every_byte_is_no_damage(name: str) -> None:
    objects, (record, gang) = disk(), resuming(granted_s=100.0)
    damage_by_name(objects, PATH, name)
    assert laws.is_whole(record, SAVE, objects.get)
    assert not list(laws.law_4_a_start_rests_on_what_was_sealed(record, gang, objects))


def test_a_debt_that_is_called_paid_while_its_gang_trains_on_unheard_is_noticed() -> None:
    objects, (_, gang) = disk(), resuming(granted_s=1.0)
    assert not list(laws.law_1_what_is_owed_is_written(gang, objects))
    gang.ranks.add(0)
    assert list(laws.law_1_what_is_owed_is_written(gang, objects))
    objects.put(layout.RunKeys("run").fence(NOW), b"{}")
    assert not list(laws.law_1_what_is_owed_is_written(gang, objects))


@pytest.mark.parametrize(("asked_by", "is_noticed"), [(None, True), (BROKER, True), (USER, False)])
def test_a_start_from_nothing_that_no_person_asked_for_is_noticed(
    asked_by: Actor | None, is_noticed: bool
) -> None:
    first, second = (EpochId(number=n, nonce="c" * 16) for n in (1, 2))
    sealed = Sealed(
        epoch=first,
        rule=CloseRule.SEEN_ENDED,
        checkpoints=(CheckpointRef(epoch=first, step=4, digest=""),),
        ends=(),
        is_owed=False,
        reason=Reason.NODE_LOST,
        message="",
        failure=None,
    )
    said: list[tuple[Actor, RunEvent]] = [
        (BROKER, Granted(placement="p", epoch=first, resume_from=None)),
        (BROKER, EpochStarted(epoch=first, nonces=("d" * 32,), report_by_s=1.0, nodes=())),
        (BROKER, sealed),
        *([] if asked_by is None else [(asked_by, Resumed(step=None, from_start=True))]),
        (BROKER, Granted(placement="q", epoch=second, resume_from=None)),
    ]
    stream = [
        Recorded(
            position=version,
            stream="teams/vision/runs/digits",
            stream_version=version,
            at=Moment(elapsed_s=float(version), wall_s=0.0),
            actor=actor,
            event=event,
        )
        for version, (actor, event) in enumerate(said, 1)
    ]
    found = list(laws.law_4_only_a_person_begins_anew(stream, is_fork=False))
    assert bool(found) is is_noticed
    assert not list(laws.law_4_only_a_person_begins_anew(stream[:1], is_fork=False))
