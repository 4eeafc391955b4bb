"""Each answer of the start protocol's rules, one sentence a row."""

from dataclasses import replace

import pytest

from regions.launcher import freshness, layout, rules
from regions.launcher.codec import Unreadable
from regions.launcher.freshness import GateWatch, Sighting
from regions.launcher.reading import Absent, Unreachable
from regions.launcher.rules import (
    BeginDrain,
    CannotSay,
    Cause,
    Closed,
    CreateOwner,
    Evidence,
    How,
    Keep,
    Leave,
    NotStarted,
    Prepare,
    Run,
    Standing,
    StillOpen,
    Stop,
    TryRevoke,
    Verdict,
    Wait,
    Wish,
    WriteFence,
)

A, B, GHOST = "a" * 32, "b" * 32, "9" * 32
EPOCH = layout.EpochId(number=3, nonce="c" * 32)
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
REVOKED = layout.Revoked(by="cancel")
FENCE = layout.Fence(reason="move")
GARBAGE = Unreadable("not JSON")
SILENCE = Unreachable("gone")


def seen(rank: int, nonce: str, moved_at_s: float | None = 9.0) -> Sighting:
    return Sighting(gate=layout.Gate(rank=rank, nonce=nonce, count=4), moved_at_s=moved_at_s)


WHOLE = GateWatch((seen(0, A), seen(1, B)))
ZERO = Standing(
    rank=0,
    nonce=A,
    placement="p1",
    world_size=2,
    now_s=10.0,
    since_s=0.0,
    gate_timeout_s=60.0,
    fresh_s=2.0,
    watch=WHOLE,
    grant=GRANT,
    owner=Absent(),
    fence=Absent(),
    is_prepared=False,
    is_told_to_leave=False,
)
ONE = replace(ZERO, rank=1, nonce=B, watch=GateWatch())


@pytest.mark.parametrize(
    ("what", "standing", "step"),
    [
        ("nothing is granted", replace(ZERO, grant=Absent()), Wait("no grant yet")),
        ("a garbled grant grants nothing", replace(ZERO, grant=GARBAGE), Wait("no grant yet")),
        ("a silent store grants nothing", replace(ZERO, grant=SILENCE), Wait("no grant yet")),
        ("the grant is another's", replace(ZERO, placement="p2"), Leave(Cause.MISMATCH)),
        ("the gang has another size", replace(ZERO, world_size=3), Leave(Cause.MISMATCH)),
        ("rank 0 lists a whole gang", ZERO, CreateOwner(STARTED)),
        ("other ranks never list", ONE, Wait("granted, and not started yet")),
        (
            "a garbled owner is not an absent one",
            replace(ZERO, owner=GARBAGE),
            Wait("granted, and not started yet"),
        ),
        (
            "an unseen owner is not an absent one",
            replace(ZERO, owner=SILENCE),
            Wait("granted, and not started yet"),
        ),
        (
            "half a gang does not start",
            replace(ZERO, watch=GateWatch((seen(0, A),))),
            Wait("the gang is not whole"),
        ),
        (
            "a record that never moved is nobody",
            replace(ZERO, watch=GateWatch((seen(0, A), seen(1, B, None)))),
            Wait("the gang is not whole"),
        ),
        (
            "a record that moved long ago is nobody",
            replace(ZERO, watch=GateWatch((seen(0, A), seen(1, B, 7.9)))),
            Wait("the gang is not whole"),
        ),
        (
            "a pod and its replacement are one too many",
            replace(ZERO, watch=GateWatch((seen(0, A), seen(1, B), seen(1, GHOST)))),
            Wait("the gang is not whole"),
        ),
        (
            "another rank 0 moves and this one does not",
            replace(ZERO, nonce=GHOST),
            Wait("another rank 0 stands here"),
        ),
        ("its own nonce is listed", replace(ONE, owner=STARTED), Prepare(GRANT)),
        ("listed and prepared", replace(ONE, owner=STARTED, is_prepared=True), Run(GRANT)),
        ("not listed", replace(ONE, nonce=GHOST, owner=STARTED), Leave(Cause.NOT_LISTED)),
        ("listed as another rank", replace(ONE, nonce=A, owner=STARTED), Leave(Cause.NOT_LISTED)),
        (
            "the number was started by another grant",
            replace(ONE, owner=replace(STARTED, grant_nonce=GHOST)),
            Leave(Cause.NOT_LISTED),
        ),
        ("revoked", replace(ONE, owner=REVOKED), Leave(Cause.REVOKED)),
        ("fenced at the gate", replace(ZERO, fence=FENCE), Leave(Cause.FENCED)),
        (
            "fenced while it prepared",
            replace(ONE, owner=STARTED, fence=FENCE, is_prepared=True),
            Leave(Cause.FENCED),
        ),
        (
            "a garbled fence is a fence",
            replace(ONE, owner=STARTED, fence=GARBAGE),
            Leave(Cause.FENCED),
        ),
        (
            "a fence that cannot be read may be there",
            replace(ONE, owner=STARTED, fence=SILENCE, is_prepared=True),
            Wait("the fence cannot be read"),
        ),
        ("its time is over", replace(ONE, now_s=60.0), Leave(Cause.GATE_TIMEOUT)),
        (
            "its time is over and nobody can be heard",
            replace(ONE, now_s=60.0, grant=SILENCE),
            Leave(Cause.GATE_TIMEOUT),
        ),
        (
            "its time is over and it is listed",
            replace(ONE, now_s=60.0, owner=STARTED),
            Prepare(GRANT),
        ),
        (
            "it is told to leave",
            replace(ZERO, is_told_to_leave=True),
            Leave(Cause.WITHDRAWN),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_next_step(what: str, standing: Standing, step: rules.Step) -> None:
    assert rules.next_step(standing) == step, what


ORDER = layout.DrainOrder(reason="move", grace_s=30.0, deadline_unix_s=None)


@pytest.mark.parametrize(
    ("what", "fence", "drain", "is_draining", "step"),
    [
        ("nothing is there", Absent(), Absent(), False, Keep()),
        ("a silent store stops no training", SILENCE, SILENCE, False, Keep()),
        ("a fence", FENCE, Absent(), False, Stop(Cause.FENCED)),
        ("a garbled fence", GARBAGE, Absent(), False, Stop(Cause.FENCED)),
        ("a fence goes before a drain", FENCE, ORDER, False, Stop(Cause.FENCED)),
        ("a drain", Absent(), ORDER, False, BeginDrain(ORDER)),
        ("a drain is begun once", Absent(), ORDER, True, Keep()),
        (
            "a garbled drain",
            Absent(),
            GARBAGE,
            False,
            BeginDrain(layout.DrainOrder("unreadable order", 0.0, None)),
        ),
    ],
)
def test_next_watch(
    what: str, fence: object, drain: object, is_draining: bool, step: object
) -> None:
    assert rules.next_watch(fence, drain, is_draining) == step, what  # type: ignore[arg-type]


OPEN = Evidence(
    epoch=EPOCH,
    owner=STARTED,
    fence=Absent(),
    ended=frozenset(),
    gone=frozenset(),
    is_region_silent=False,
    go_on_by=None,
)
SILENT = replace(OPEN, owner=SILENCE, fence=SILENCE, is_region_silent=True)
BOTH = frozenset({A, B})


def closed(how: How, is_owed: bool = False) -> Closed:
    return Closed(how=how, is_owed=is_owed)


@pytest.mark.parametrize(
    ("what", "evidence", "wish", "verdict"),
    [
        ("not started", replace(OPEN, owner=Absent()), Wish.LET_RUN, NotStarted()),
        ("not started is not closed", replace(OPEN, owner=Absent()), Wish.CLOSE, TryRevoke()),
        ("revoked", replace(OPEN, owner=REVOKED), Wish.LET_RUN, closed(How.REVOKED)),
        (
            "its number was started by another life",
            replace(OPEN, owner=replace(STARTED, grant_nonce=GHOST)),
            Wish.CLOSE,
            closed(How.REVOKED),
        ),
        ("it trains", OPEN, Wish.LET_RUN, StillOpen((A, B))),
        ("it trains and must stop", OPEN, Wish.CLOSE, WriteFence((A, B))),
        ("it was told", replace(OPEN, fence=FENCE), Wish.CLOSE, StillOpen((A, B))),
        (
            "one of it stopped",
            replace(OPEN, fence=FENCE, ended=frozenset({A})),
            Wish.CLOSE,
            StillOpen((B,)),
        ),
        (
            "others that ended say nothing of the listed",
            replace(OPEN, ended=frozenset({GHOST}), gone=frozenset({A})),
            Wish.LET_RUN,
            StillOpen((B,)),
        ),
        ("all ended", replace(OPEN, ended=BOTH), Wish.LET_RUN, closed(How.ENDED)),
        ("all gone", replace(OPEN, gone=BOTH), Wish.LET_RUN, closed(How.ENDED)),
        (
            "one ended, one gone",
            replace(OPEN, ended=frozenset({A}), gone=frozenset({B})),
            Wish.CLOSE,
            closed(How.ENDED),
        ),
        (
            "all stopped at the fence",
            replace(OPEN, fence=FENCE, ended=BOTH),
            Wish.CLOSE,
            closed(How.FENCED),
        ),
        ("garbage says nothing", replace(OPEN, owner=GARBAGE), Wish.CLOSE, CannotSay("not JSON")),
        (
            "garbage is no silence",
            replace(OPEN, owner=GARBAGE, go_on_by="ops"),
            Wish.CLOSE,
            CannotSay("not JSON"),
        ),
        ("silence says nothing", SILENT, Wish.CLOSE, CannotSay("gone")),
        (
            "somebody says to go on",
            replace(SILENT, go_on_by="ops"),
            Wish.CLOSE,
            closed(How.UNREACHABLE, is_owed=True),
        ),
        (
            "nobody wants to go on",
            replace(SILENT, go_on_by="ops"),
            Wish.LET_RUN,
            CannotSay("gone"),
        ),
        (
            "known to have started, then silent",
            replace(SILENT, owner=STARTED, go_on_by="ops"),
            Wish.CLOSE,
            closed(How.UNREACHABLE, is_owed=True),
        ),
        (
            "the cluster is silent, the store is not: it is told first",
            replace(OPEN, is_region_silent=True, go_on_by="ops"),
            Wish.CLOSE,
            WriteFence((A, B)),
        ),
        (
            "told, and the cluster is silent",
            replace(OPEN, fence=FENCE, is_region_silent=True, go_on_by="ops"),
            Wish.CLOSE,
            closed(How.UNREACHABLE),
        ),
        (
            "no silence, no going on",
            replace(OPEN, fence=FENCE, go_on_by="ops"),
            Wish.CLOSE,
            StillOpen((A, B)),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_judge(what: str, evidence: Evidence, wish: Wish, verdict: Verdict) -> None:
    assert rules.judge(evidence, wish) == verdict, what


@pytest.mark.parametrize(
    ("what", "grant", "owner", "is_closed", "may"),
    [
        ("a leg without a grant", Absent(), Absent(), False, True),
        ("a grant that may start any moment", GRANT, Absent(), False, False),
        ("a started gang", GRANT, STARTED, False, False),
        ("a started gang that was closed", GRANT, STARTED, True, True),
        ("a revoked one", GRANT, REVOKED, False, True),
        (
            "one whose number another started",
            GRANT,
            replace(STARTED, grant_nonce=GHOST),
            False,
            True,
        ),
        ("a garbled grant", GARBAGE, Absent(), False, False),
        ("a silent store", SILENCE, SILENCE, False, False),
        ("a silent owner", GRANT, SILENCE, False, False),
    ],
)
def test_may_withdraw(what: str, grant: object, owner: object, is_closed: bool, may: bool) -> None:
    assert rules.may_withdraw(grant, owner, is_closed) is may, what  # type: ignore[arg-type]


def test_a_count_is_fresh_once_it_was_seen_to_move_on_the_observers_clock() -> None:
    still, moved = layout.Gate(rank=0, nonce=A, count=1), layout.Gate(rank=0, nonce=A, count=2)
    first = freshness.watch_gates(GateWatch(), [still], 100.0)
    second = freshness.watch_gates(first, [still], 101.0)
    third = freshness.watch_gates(second, [moved], 102.0)
    fourth = freshness.watch_gates(third, [moved], 103.0)
    assert [watch.sightings[0].moved_at_s for watch in (first, second, third, fourth)] == [
        None,
        None,
        102.0,
        102.0,
    ]
    assert freshness.watch_gates(fourth, [], 104.0) == GateWatch()
