"""How an epoch stands by the start protocol, as the port's facts make it."""

from dataclasses import replace

import pytest

from broker.history.commands import PayDebt
from broker.loops.closing import explain, failed_unasked, rank_ends, weigh
from broker.loops.converger import _paid
from broker.loops.sight import ClusterSight
from broker.model.reasons import Reason
from broker.model.run import CloseRule, RankEnd
from regions.cluster import Cause, MemberSeen, OwnerState, Stage, WordSeen
from regions.launcher import rules
from tests.builders import Story
from tests.unit.loops.seeing import ended, epoch_seen, placement_seen, sight_of, silent


def verdict(
    story: Story, sight: ClusterSight, *, is_lost: bool = False, by: str | None = None
) -> rules.Verdict:
    return weigh(story.run, story.epoch, sight, is_lost=is_lost, go_on_by=by)


def granted() -> Story:
    return Story().accepted().placed().prepared().at_gate().granted()


def test_a_granted_epoch_without_an_owner_is_let_be() -> None:
    story = granted()
    seen = placement_seen(story.placement("alpha"), story.run)
    assert verdict(story, sight_of([seen])) == rules.NotStarted()


def test_a_granted_gang_that_somebody_removed_is_to_be_revoked() -> None:
    story = granted()
    assert verdict(story, sight_of()) == rules.TryRevoke()
    assert verdict(story, sight_of(is_whole=False)) == rules.NotStarted()
    started = epoch_seen(story.run, owner=OwnerState.STARTED)
    assert isinstance(verdict(story, sight_of((), [started])), rules.StillOpen)


def test_a_gang_that_is_granted_and_was_not_seen_yet_is_waited_for() -> None:
    story = Story().accepted().placed().prepared().granted()
    assert verdict(story, sight_of()) == rules.NotStarted()


def test_a_stopped_epoch_without_an_owner_is_to_be_revoked() -> None:
    assert verdict(granted().stopped(), sight_of()) == rules.TryRevoke()


def test_an_epoch_whose_gang_left_its_gate_is_to_be_revoked() -> None:
    story = granted()
    seen = placement_seen(story.placement("alpha"), story.run, stage=Stage.ENDED)
    assert verdict(story, sight_of([seen])) == rules.TryRevoke()


@pytest.mark.parametrize("sight", [silent(), sight_of(is_store_readable=False)])
def test_a_silent_store_is_never_read_as_an_absence(sight: ClusterSight) -> None:
    assert isinstance(verdict(granted().stopped(), sight), rules.CannotSay)


def test_a_revoked_epoch_is_closed() -> None:
    story = granted().stopped()
    epoch = epoch_seen(story.run, owner=OwnerState.REVOKED, nonces=())
    assert verdict(story, sight_of((), [epoch])) == rules.Closed(
        how=rules.How.REVOKED, is_owed=False
    )


def test_an_epoch_that_was_revoked_before_its_grant_was_written_is_closed() -> None:
    story = granted().stopped()
    epoch = epoch_seen(story.run, owner=OwnerState.REVOKED, nonces=())
    alone = replace(epoch, key=replace(epoch.key, nonce=""), placement="")
    assert verdict(story, sight_of((), [alone])) == rules.Closed(
        how=rules.How.REVOKED, is_owed=False
    )


def test_an_owner_once_seen_stays_seen_when_its_store_falls_silent() -> None:
    story = Story().accepted().training().stopped()
    assert isinstance(verdict(story, silent()), rules.StillOpen)


def test_a_stopped_gang_is_fenced_and_closed_when_each_rank_has_ended() -> None:
    story = Story().accepted().training().stopped()
    running = epoch_seen(story.run)
    assert isinstance(verdict(story, sight_of((), [running])), rules.WriteFence)
    fenced = replace(running, is_fence_written=True)
    assert isinstance(verdict(story, sight_of((), [fenced])), rules.StillOpen)
    over = replace(fenced, ends=(ended(story.run, 0, None),), gone=frozenset({1}))
    closed = rules.Closed(how=rules.How.FENCED, is_owed=False)
    assert verdict(story, sight_of((), [over])) == closed


def test_a_gang_that_its_cluster_has_ended_is_gone_rank_by_rank() -> None:
    story = Story().accepted().training()
    seen = placement_seen(
        story.placement("alpha"), story.run, stage=Stage.ENDED, cause=Cause.NODE_PREEMPTED
    )
    closed = rules.Closed(how=rules.How.ENDED, is_owed=False)
    assert verdict(story, sight_of([seen], [epoch_seen(story.run)])) == closed


def test_the_last_look_of_a_cluster_that_fell_silent_proves_nothing_new() -> None:
    story = Story().accepted().training()
    alive = placement_seen(story.placement("alpha"), story.run, stage=Stage.STANDING)
    sight = silent(sight_of([alive], [epoch_seen(story.run)]))
    assert isinstance(verdict(story, sight), rules.StillOpen)


def test_a_recalled_grant_is_revoked_and_one_that_started_is_let_run() -> None:
    story = granted().stopped(Reason.OTHER_LEG_STARTED)
    assert verdict(story, sight_of()) == rules.TryRevoke()
    started = epoch_seen(story.run, owner=OwnerState.STARTED, nonces=("a", "b"))
    assert isinstance(verdict(story, sight_of((), [started])), rules.StillOpen)
    story.stopped(Reason.REGION_DRAINING)
    assert isinstance(verdict(story, sight_of((), [started])), rules.WriteFence)


def test_only_somebodys_word_closes_an_unreachable_epoch() -> None:
    story = Story().accepted().training().stopped()
    sight = silent(sight_of((), [epoch_seen(story.run)]))
    assert isinstance(verdict(story, sight), rules.StillOpen)
    assert verdict(story, sight, by="the policy") == rules.Closed(
        how=rules.How.UNREACHABLE, is_owed=True
    )


def test_an_object_that_somebody_deleted_is_believed_gone_after_its_fence() -> None:
    story = Story().accepted().training().stopped()
    fenced = epoch_seen(story.run, is_fence_written=True)
    assert isinstance(verdict(story, sight_of((), [fenced])), rules.StillOpen)
    assert isinstance(verdict(story, sight_of((), [fenced]), is_lost=True), rules.Closed)


def test_ends_are_told_rank_by_rank() -> None:
    story = Story().accepted().training()
    seen = epoch_seen(story.run, ends=(ended(story.run, 1, 7),))
    assert rank_ends(story.epoch, seen, None, is_all_over=False) == (RankEnd(rank=1, exit_code=7),)
    assert rank_ends(story.epoch, seen, None, is_all_over=True) == (
        RankEnd(rank=0, exit_code=None, cause="seen gone"),
        RankEnd(rank=1, exit_code=7),
    )


def test_a_failure_that_only_the_cluster_saw_is_one_and_a_success_is_not() -> None:
    story = Story().accepted().training()
    members = (
        MemberSeen(rank=0, member="m0", is_alive=False, exit_code=0, signal=None),
        MemberSeen(rank=1, member="m1", is_alive=False, exit_code=7, signal=None),
    )
    seen = placement_seen(story.placement("alpha"), story.run, stage=Stage.ENDED, members=members)
    assert rank_ends(story.epoch, None, seen, is_all_over=True) == (
        RankEnd(rank=0, exit_code=None, cause="seen gone"),
        RankEnd(rank=1, exit_code=7),
    )
    twice = replace(seen, members=(*members, replace(members[1], member="m2", exit_code=87)))
    assert rank_ends(story.epoch, None, twice, is_all_over=True)[1].exit_code is None
    told = replace(seen, members=(members[0], replace(members[1], exit_code=87)))
    assert rank_ends(story.epoch, None, told, is_all_over=True)[1].cause == "preempted"


@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        (Cause.NODE_PREEMPTED, Reason.NODE_PREEMPTED),
        (Cause.NODE_LOST, Reason.NODE_LOST),
        (Cause.EVICTED, Reason.EVICTED),
        (Cause.MEMBER_EXITED, None),
        (Cause.NONE, None),
    ],
)
def test_a_cluster_explains_an_end_or_leaves_it_to_the_exits(
    cause: Cause, reason: Reason | None
) -> None:
    story = Story().accepted().training()
    seen = placement_seen(story.placement("alpha"), story.run, stage=Stage.ENDED, cause=cause)
    assert explain(story.epoch, epoch_seen(story.run), seen).cause is reason


@pytest.mark.parametrize(
    ("member", "end", "cause"),
    [
        ({"exit_code": 7}, None, Reason.COMMAND_FAILED),
        ({"exit_code": None, "signal": 9}, None, Reason.COMMAND_FAILED),
        ({"exit_code": 137}, {"exit_code": None, "signal": 9}, Reason.COMMAND_FAILED),
        ({"exit_code": 127}, {"exit_code": 127, "cause": "cannot_run"}, Reason.COMMAND_FAILED),
        # Its launcher says that somebody told it, or left the gate; or nobody looked.
        ({"exit_code": 87}, None, None),
        ({"exit_code": 87}, {"kind": "STOPPED", "cause": "preempted", "exit_code": 143}, None),
        ({"exit_code": 84}, {"kind": "LEFT_GATE", "cause": "bundle_bad"}, Reason.BUNDLE_DAMAGED),
        (
            {"exit_code": 90},
            {"kind": "LEFT_GATE", "cause": "checkpoint_bad"},
            Reason.COPY_NOT_VERIFIED,
        ),
        ({"exit_code": None}, None, None),
    ],
)
def test_the_first_end_that_a_cluster_saw_is_the_cause_when_it_was_the_commands_own(
    member: dict[str, int], end: dict[str, object] | None, cause: Reason | None
) -> None:
    story = Story().accepted().training()
    seen = MemberSeen(rank=1, member="m1", is_alive=False, exit_code=0, signal=None)
    members = (
        MemberSeen(rank=0, member="m0", is_alive=False, exit_code=None, signal=9),
        replace(seen, **{"exit_code": None, **member}),  # type: ignore[arg-type]
    )
    shown = placement_seen(
        story.placement("alpha"),
        story.run,
        stage=Stage.ENDED,
        cause=Cause.MEMBER_EXITED,
        members=members,
        first_exit="m1",
    )
    withdrawn = ended(story.run, 0, None, kind="LEFT_GATE", cause="withdrawn")
    ends = () if end is None else (withdrawn, ended(story.run, 1, **end))  # type: ignore[arg-type]
    said = explain(story.epoch, epoch_seen(story.run, ends=ends), shown)
    assert said.cause is (cause or (Reason.EVICTED if end else None))
    taken = replace(shown, cause=Cause.NODE_LOST)
    assert explain(story.epoch, epoch_seen(story.run, ends=ends), taken).cause is Reason.NODE_LOST


@pytest.mark.parametrize(
    ("sentence", "fault", "cause", "message"),
    [
        ("The GPUs timed out", "TRANSIENT", Reason.TRANSIENT_FAULT, ": the GPUs timed out"),
        ("A disk is full", "USER", Reason.COMMAND_FAILED, ": a disk is full"),
        ("Its command failed: exit code 134", "USER", Reason.COMMAND_FAILED, ""),
    ],
)
def test_how_the_first_rank_ended_is_said_by_its_own_last_words(
    sentence: str, fault: str, cause: Reason, message: str
) -> None:
    story = Story().accepted().training()
    failed = MemberSeen(rank=1, member="m1", is_alive=False, exit_code=134, signal=None)
    word = WordSeen(
        word="W", sentence=sentence, fault=fault, deed="", advice="", look_at="", raw=""
    )
    shown = placement_seen(
        story.placement("alpha"),
        story.run,
        stage=Stage.ENDED,
        cause=Cause.MEMBER_EXITED,
        members=(failed,),
        first_exit="m1",
        said=word,
    )
    explained = explain(story.epoch, epoch_seen(story.run), shown)
    assert explained.cause is cause
    assert explained.message == f"Rank 1 ended with exit code 134{message}"


def test_a_failure_of_a_gang_that_had_started_is_its_own_though_its_store_says_nothing() -> None:
    story = Story().accepted().training()
    failed = MemberSeen(rank=1, member="m1", is_alive=False, exit_code=1, signal=None)
    shown = placement_seen(
        story.placement("alpha"),
        story.run,
        stage=Stage.ENDED,
        cause=Cause.MEMBER_EXITED,
        members=(failed,),
        first_exit="m1",
    )
    assert explain(story.epoch, None, shown).cause is Reason.COMMAND_FAILED
    assert explain(granted().epoch, None, shown).cause is Reason.GANG_NOT_WHOLE


def test_what_is_wrong_with_the_run_itself_ends_a_start_that_never_was() -> None:
    story = granted()
    word = WordSeen(
        word="LAUNCHER_NOT_STARTED",
        sentence="The image has no python3",
        fault="USER",
        deed="It ends",
        advice="Put one into it.",
        look_at="pod/x",
        raw="",
    )
    shown = placement_seen(
        story.placement("alpha"),
        story.run,
        stage=Stage.ENDED,
        cause=Cause.MEMBER_EXITED,
        message="with advice",
        said=word,
    )
    found = explain(story.epoch, None, shown)
    assert (found.cause, found.message) == (
        Reason.COMMAND_FAILED,
        "alpha: the image has no python3",
    )


# Each rank: its exit code and whether it had heard of the drain by then; None still runs.
UNHEARD, HEARD, SAVED, KILLED = (1, False), (1, True), (75, True), (None, False)


@pytest.mark.parametrize(
    ("ranks", "first_exit", "is_own"),
    [
        ((UNHEARD, None), "", True),  # the others have not left: nobody can have brought it about
        ((UNHEARD, UNHEARD), "", True),
        ((HEARD, None), "", False),  # its code may fail at what it was asked to do
        ((UNHEARD, SAVED), "", False),  # without the one that left it cannot go on
        ((UNHEARD, SAVED), "m0", True),  # the cluster saw it end first
        ((UNHEARD, SAVED), "m1", False),
        ((UNHEARD, KILLED), "", False),
        ((UNHEARD, KILLED), "m0", True),
        ((SAVED, SAVED), "m0", False),
        ((None, None), "", False),
    ],
)
def test_a_failure_and_a_drain_seen_at_once_are_told_apart_by_who_had_heard_it(
    ranks: tuple[tuple[int | None, bool] | None, ...], first_exit: str, is_own: bool
) -> None:
    story = Story().accepted().training()
    ends = tuple(
        ended(story.run, rank, one[0], was_asked=one[1])
        for rank, one in enumerate(ranks)
        if one is not None and one != KILLED
    )
    gone = frozenset(rank for rank, one in enumerate(ranks) if one == KILLED)
    members = tuple(
        MemberSeen(
            rank=rank,
            member=f"m{rank}",
            is_alive=one is None,
            exit_code=None if one is None else one[0],
            signal=9 if one == KILLED else None,
        )
        for rank, one in enumerate(ranks)
    )
    shown = placement_seen(
        story.placement("alpha"),
        story.run,
        stage=Stage.ENDED,
        cause=Cause.MEMBER_EXITED if first_exit else Cause.NONE,
        members=members,
        first_exit=first_exit,
    )
    seen = epoch_seen(story.run, ends=ends, gone=gone, is_drain_written=True)
    assert failed_unasked(seen, shown) is is_own
    # What stands in a store that holds no word to drain was not brought about by one.
    assert failed_unasked(replace(seen, is_drain_written=False), shown)


def test_a_process_that_its_owner_does_not_list_is_no_failure_of_its_command() -> None:
    story = Story().accepted().training()
    left = ended(story.run, 0, None, kind="LEFT_GATE", cause="not_listed")
    said = explain(story.epoch, epoch_seen(story.run, ends=(left,)), None)
    assert (said.cause, said.message) == (Reason.GANG_RECREATED, "rank 0: not listed")


def test_a_listed_rank_that_left_its_gate_explains_the_end() -> None:
    story = Story().accepted().training()
    termed = ended(story.run, 0, None, kind="STOPPED", cause="preempted")
    assert explain(story.epoch, epoch_seen(story.run, ends=(termed,)), None).cause is None
    left = ended(story.run, 0, None, kind="LEFT_GATE", cause="bundle_bad")
    assert (
        explain(story.epoch, epoch_seen(story.run, ends=(left,)), None).cause
        is Reason.BUNDLE_DAMAGED
    )


@pytest.mark.parametrize(
    ("owner", "is_fenced", "is_paid"),
    [
        (OwnerState.REVOKED, False, True),
        (OwnerState.STARTED, True, True),
        (OwnerState.STARTED, False, False),
    ],
)
def test_a_debt_is_paid_by_its_fence_or_by_a_revocation(
    owner: OwnerState, is_fenced: bool, is_paid: bool
) -> None:
    story = granted() if owner is OwnerState.REVOKED else Story().accepted().training()
    seen = epoch_seen(story.run, owner=owner, is_fence_written=is_fenced)
    story.closed(rule=CloseRule.UNREACHABLE, cause=Reason.CLUSTER_UNREACHABLE)
    epoch, sight = story.run.epochs[-1], sight_of((), [seen])
    verdicts = {epoch.id: weigh(story.run, epoch, sight, is_lost=False, go_on_by=None)}
    paid = (PayDebt(epoch=epoch.id),) if is_paid else ()
    assert _paid(story.run, verdicts, sight) == paid
