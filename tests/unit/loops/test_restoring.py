"""A restored log joined with what the stores hold."""

from decimal import Decimal

from broker.history.commands import AdoptEpoch, CloseEpoch, RecordStart, RunCommand, SkipEpochs
from broker.history.lineage import resumable
from broker.loops.restoring import Place, own_seals, site_of, taken_over
from broker.model.bill import NodesFrom
from broker.model.checkpoint import CheckpointRef, EpochId
from broker.model.run import CloseRule, Run
from broker.model.states import RunState
from regions.launcher import layout, restore
from tests.builders import Story
from tests.unit.loops.seeing import NOW, placement_seen
from tests.unit.placement.pictures import make_flavor

NONCES = ("00000000aa", "11111111bb")
MACHINES = (NodesFrom(at_s=10.0, nodes=2), NodesFrom(at_s=20.0, nodes=0))


def key(epoch: EpochId) -> layout.EpochId:
    return layout.EpochId(number=epoch.number, nonce=epoch.nonce)


def found_at(number: int, placement: str) -> restore.FoundEpoch:
    epoch = layout.EpochId(number=number, nonce=f"{number:08x}")
    return restore.FoundEpoch(region="alpha", epoch=epoch, placement=placement, nonces=NONCES)


def join(
    run: Run,
    *found: restore.FoundEpoch,
    over: tuple[restore.FoundEpoch, ...] = (),
    closed: tuple[layout.EpochId, ...] = (),
    seals: tuple[layout.Seal, ...] = (),
    grants: dict[layout.EpochId, layout.Grant] | None = None,
) -> tuple[RunCommand, ...]:
    adopted = restore.Adopted(
        open=found, over=over, closed=frozenset(closed), next_number=20, seals=seals
    )
    places = {
        one.placement: Place(
            site=site_of(
                run, one.placement, 2, cluster="alpha", region="alpha", seen=None, flavors=()
            ),
            nodes=MACHINES,
        )
        for one in (*over, *found)
    }
    return taken_over(run, adopted, grants or {}, places, NOW)


def test_a_run_of_which_nothing_new_was_found_starts_above_what_was_revoked() -> None:
    assert join(Story().accepted().run) == (SkipEpochs(next_epoch=20),)


def test_a_started_epoch_is_taken_over_with_what_it_resumed_from() -> None:
    story = Story().accepted().training().saved(100).preempted().placed()
    leg = story.placement("alpha")
    found = found_at(2, leg.id)
    (own,) = own_seals(story.run)
    former = story.run.epochs[0].id
    grant = layout.Grant(
        placement=leg.id,
        epoch=found.epoch,
        world_size=2,
        incarnation=1,
        resume_from=f"runs/{'u' * 20}/e000001-{'a' * 8}/checkpoints/step-100",
        bundle=None,
        seals=(own,),
    )
    told = join(story.run, found, seals=(own,), grants={found.epoch: grant})
    adopt, skip = told
    assert isinstance(adopt, AdoptEpoch)
    assert (adopt.epoch.number, adopt.nonces, adopt.site) == (2, NONCES, leg.site)
    assert adopt.nodes == MACHINES
    assert adopt.seals == (CheckpointRef(epoch=former, step=100, digest=own.steps[0][1]),)
    assert skip == SkipEpochs(next_epoch=20)
    story.do(adopt, SkipEpochs(next_epoch=20))
    assert story.run.state is RunState.STARTING
    assert story.run.open_epoch is not None
    assert story.run.open_epoch.id.number == 2
    assert story.run.next_epoch == 20


def test_what_a_grant_proves_closed_is_closed_with_the_grants_seal() -> None:
    story = Story().accepted().training().saved(100)
    epoch = story.epoch.id
    steps = ((100, story.run.checkpoints[0].ref.digest), (200, "e" * 64))
    seal = layout.Seal(epoch=key(epoch), steps=steps)
    close, _ = join(story.run, closed=(key(epoch),), seals=(seal,))
    assert isinstance(close, CloseEpoch)
    assert (close.epoch, close.rule) == (epoch, CloseRule.UNREACHABLE)
    story.do(close)
    assert story.run.state is RunState.QUEUED
    assert sorted(c.ref.step for c in story.run.checkpoints if c.is_sealed) == [100, 200]


def test_a_seal_counts_though_the_log_was_cut_before_the_start() -> None:
    story = Story().accepted().placed().prepared().at_gate().granted()
    epoch = key(story.epoch.id)
    over = restore.FoundEpoch(
        region="alpha", epoch=epoch, placement=story.epoch.placement, nonces=NONCES
    )
    seal = layout.Seal(epoch=epoch, steps=((100, "d" * 64),))
    told = join(story.run, over=(over,), closed=(epoch,), seals=(seal,))
    assert [type(command) for command in told] == [RecordStart, CloseEpoch, SkipEpochs]
    story.do(*told)
    assert [c.ref.step for c in resumable(story.run)] == [100]
    assert (story.run.state, story.run.infrastructure_losses) == (RunState.QUEUED, 0)


def test_what_a_lost_epoch_saved_counts_when_a_later_grant_says_so() -> None:
    story = Story().accepted()
    first, second = found_at(1, "p1"), found_at(2, "p2")
    seals = tuple(
        layout.Seal(epoch=one.epoch, steps=((step, f"{step:064x}"),))
        for one, step in ((first, 100), (second, 200))
    )
    closed = (first.epoch, second.epoch)
    told = join(story.run, over=(first, second), closed=closed, seals=seals)
    assert [type(command) for command in told] == [
        AdoptEpoch,
        CloseEpoch,
        AdoptEpoch,
        CloseEpoch,
        SkipEpochs,
    ]
    story.do(*told)
    assert [c.ref.step for c in story.run.checkpoints if c.is_sealed] == [100, 200]
    assert [c.ref.step for c in resumable(story.run)] == [200]
    assert (story.run.state, story.run.infrastructure_losses) == (RunState.QUEUED, 0)


def test_an_epoch_that_the_log_has_open_and_nothing_closed_stays_open() -> None:
    story = Story().accepted().training()
    assert join(story.run) == (SkipEpochs(next_epoch=20),)


def test_a_place_that_the_log_does_not_know_is_told_by_its_cluster() -> None:
    story = Story().accepted().placed().prepared()
    run = story.run
    seen = placement_seen(story.placement("alpha"), run, queue="train", flavor="h100-spot")
    cheap = make_flavor("alpha", flavor="h100-spot", price="1.5", accelerator="h100")
    other = make_flavor("alpha", flavor="other", accelerator="h100")
    site = site_of(
        run,
        "unknown",
        2,
        cluster="alpha",
        region="alpha",
        seen=seen,
        flavors=(other, cheap),
    )
    assert (site.key, site.price_per_gpu_hour, site.nodes) == (cheap.key, Decimal("1.5"), 2)
