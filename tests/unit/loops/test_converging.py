"""What is to be done in a cluster so that it is as the log says."""

from broker.history.commands import (
    EndPlacement,
    RequestDrain,
    StopEpoch,
    WarnRun,
    WithdrawPlacement,
)
from broker.loops.closing import weigh
from broker.loops.converger import refused
from broker.loops.converging import converge
from broker.loops.sight import ClusterSight
from broker.model.policy import RegionPolicy
from broker.model.reasons import Reason
from broker.model.run import CloseRule
from regions.cluster import (
    Action,
    Cause,
    Drain,
    Fence,
    Grant,
    Outcome,
    OwnerState,
    Queue,
    Revoke,
    Stage,
    Withdraw,
)
from tests.builders import Story
from tests.unit.loops.seeing import CLUSTER, NOW, epoch_seen, placement_seen, sight_of, silent


def wanted(
    story: Story, sight: ClusterSight, *, is_surveyed: bool = True, cluster: str = CLUSTER
) -> tuple[Action, ...]:
    run = story.run
    return converge(
        run,
        cluster,
        sight,
        verdicts={
            epoch.id: weigh(run, epoch, sight, is_lost=False, go_on_by=None)
            for epoch in run.epochs
            if epoch.is_open or epoch.is_owed
        },
        policy=RegionPolicy(),
        is_surveyed=is_surveyed,
        incarnation=3,
        mark="m",
        book=None,
        now=NOW,
    )


def kinds(actions: tuple[Action, ...]) -> list[type[Action]]:
    return [type(action) for action in actions]


def withdrawn(story: Story) -> Story:
    return story.do(
        WithdrawPlacement(
            placement=story.placement("alpha").id, reason=Reason.STOCKOUT, message="given back"
        )
    )


def test_a_prepared_placement_is_queued_where_a_whole_look_does_not_show_it() -> None:
    story = Story().accepted().placed().prepared()
    (action,) = wanted(story, sight_of())
    assert isinstance(action, Queue)
    assert action.placement == story.placement("alpha").id
    assert action.run_key == story.run.uid
    assert action.labels["run"] == story.run.name
    assert wanted(story, sight_of(is_whole=False)) == ()
    assert wanted(story, silent(sight_of())) == ()
    assert wanted(story, sight_of(), is_surveyed=False) == ()
    seen = placement_seen(story.placement("alpha"), story.run)
    assert wanted(story, sight_of([seen])) == ()


def test_a_placement_that_is_not_prepared_or_was_seen_before_is_not_queued() -> None:
    assert wanted(Story().accepted().placed(), sight_of()) == ()
    assert wanted(Story().accepted().placed().prepared().reported(), sight_of()) == ()


def test_a_grant_is_written_until_the_store_shows_it_also_behind_a_silent_cluster() -> None:
    story = Story().accepted().placed().prepared().reported().granted()
    seen = placement_seen(story.placement("alpha"), story.run)
    *_, action = wanted(story, sight_of([seen]))
    assert isinstance(action, Grant)
    assert (action.epoch.number, action.world_size, action.incarnation) == (1, 2, 3)
    assert kinds(wanted(story, silent(store=sight_of().observation))) == [Grant]
    there = epoch_seen(story.run, owner=OwnerState.ABSENT, nonces=())
    assert wanted(story, sight_of([seen], [there])) == ()


def test_an_order_is_carried_to_its_end_before_a_grant_lets_its_gang_train() -> None:
    story = Story().accepted().placed().prepared().reported().granted()
    seen = placement_seen(story.placement("alpha"), story.run)
    assert kinds(wanted(story, sight_of([seen]))) == [Queue, Grant]
    assert kinds(wanted(story, sight_of([seen]), is_surveyed=False)) == [Grant]


def test_a_grant_carries_what_its_start_resumes_from_and_the_seals_before_it() -> None:
    story = Story().accepted().training().saved(100).saved(200, "beta")
    former = story.epoch.id
    story.preempted().placed("beta").prepared("beta").at_gate("beta").granted("beta")
    run = story.run
    seen = placement_seen(story.placement("beta"), run)
    *_, action = wanted(story, sight_of([seen], cluster="beta", region="beta"), cluster="beta")
    assert isinstance(action, Grant)
    assert action.resume_path == f"runs/{run.uid}/{former.folder}/checkpoints/step-200"
    (seal,) = action.seals
    assert (seal.number, seal.nonce) == (former.number, former.nonce)
    assert [step for step, _ in seal.checkpoints] == [100, 200]


def test_an_order_to_stop_revokes_what_has_not_started_and_fences_what_has() -> None:
    early = Story().accepted().placed().prepared().reported().granted().stopped()
    seen = placement_seen(early.placement("alpha"), early.run)
    assert kinds(wanted(early, sight_of([seen]))) == [Revoke]
    story = Story().accepted().training().stopped()
    assert kinds(wanted(story, sight_of((), [epoch_seen(story.run)]))) == [Fence]
    assert wanted(story, sight_of((), [epoch_seen(story.run, is_fence_written=True)])) == ()


def test_a_drain_is_written_once_with_the_time_that_is_left() -> None:
    story = Story()
    story.now = NOW
    story.accepted().training()
    story.do(RequestDrain(reason=Reason.REGION_DRAINING, message="leave", grace_s=45.0))
    (action,) = wanted(story, sight_of((), [epoch_seen(story.run)]))
    assert isinstance(action, Drain)
    assert action.grace_s == 45.0
    assert wanted(story, sight_of((), [epoch_seen(story.run, is_drain_written=True)])) == ()


def test_a_withdrawn_placement_goes_by_the_very_object_that_was_seen() -> None:
    story = withdrawn(Story().accepted().placed().prepared().reported())
    seen = placement_seen(story.placement("alpha"), story.run)
    (action,) = wanted(story, sight_of([seen]))
    assert action == Withdraw(
        placement=seen.placement, run_key=story.run.uid, uid=seen.uid, epoch=None, is_closed=False
    )
    assert wanted(story, sight_of([seen]), is_surveyed=False) == ()
    assert (
        wanted(
            story,
            sight_of([placement_seen(story.placement("alpha"), story.run, stage=Stage.ENDED)]),
        )
        == ()
    )


def test_the_name_of_one_that_was_never_seen_is_occupied() -> None:
    story = withdrawn(Story().accepted().placed().prepared())
    (action,) = wanted(story, sight_of())
    assert isinstance(action, Withdraw)
    assert action.uid == ""


def test_a_revoked_start_is_withdrawn_as_closed() -> None:
    story = Story().accepted().placed().prepared().reported().granted().stopped()
    epoch = story.epoch.id
    seen = placement_seen(story.placement("alpha"), story.run)
    story.closed(rule=CloseRule.NEVER_STARTED)
    (action,) = wanted(story, sight_of([seen]))
    assert isinstance(action, Withdraw)
    assert action.is_closed
    assert action.epoch is not None
    assert (action.epoch.number, action.epoch.nonce) == (epoch.number, epoch.nonce)


def test_what_a_cluster_refuses_for_good_becomes_a_command() -> None:
    outcome = Outcome(is_done=False, cause=Cause.REFUSED, message="no")
    story = Story().accepted().placed().prepared()
    (queue,) = wanted(story, sight_of())
    (said,) = refused(story.run, queue, outcome)
    assert isinstance(said, EndPlacement)
    assert said.reason is Reason.REFUSED_BY_CLUSTER
    story.granted()
    (stopped,) = refused(story.run, queue, outcome)
    assert isinstance(stopped, StopEpoch)
    (grant,) = [a for a in wanted(story, sight_of()) if isinstance(a, Grant)]
    (warned,) = refused(story.run, grant, outcome)
    assert isinstance(warned, WarnRun)
