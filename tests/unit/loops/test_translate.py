"""What a cluster reports, in the broker's words."""

from dataclasses import replace

import pytest

from broker.loops.translate import REASON_OF, end_of, facts_of, report_of
from broker.model.capacity import FreeRoom
from broker.model.reasons import Reason
from broker.model.states import PlacementEnd
from broker.placement.patience import Remedy, row_for
from regions.capacity import FlavorSeen, QueueSeen, RoomSeen
from regions.cluster import Cause, ClusterObservation, MemberSeen, Stage, WordSeen
from regions.kueue.explanation import ROWS
from regions.kueue.vocabulary import Word
from regions.kueue.words import Deed
from tests.builders import Story
from tests.unit.loops.seeing import CLUSTER, placement_seen

FLEX = FlavorSeen(
    flavor="flex",
    accelerator="H100",
    accelerators_per_node=8,
    capacity_type="FLEX",
    zones=(),
    price_per_gpu_hour=None,
    nominal=16,
    reserved=0,
    used=0,
    parked=0,
    borrowable=0,
    nodes_free=0,
    nodes_coming=0,
    max_nodes=2,
    startup_s=60.0,
    preemption_notice_s=0.0,
    eta_s=900.0,
    max_run_s=86_400.0,
)


def observe(flavor: FlavorSeen) -> ClusterObservation:
    queue = QueueSeen(queue="q", is_stopped=False, pending=0, pending_gpus=0, flavors=(flavor,))
    return ClusterObservation(
        cluster=CLUSTER,
        region=CLUSTER,
        seen_at_s=5.0,
        is_whole=True,
        is_store_readable=True,
        blind=(),
        queues=(queue,),
        placements={},
        epochs={},
        signals=(),
        changed=None,
        keeps_secrets=False,
    )


@pytest.mark.parametrize("zone", ["z-a", ""])
def test_what_fits_by_zone_and_size_is_passed_on_and_unknown_is_not_nothing(zone: str) -> None:
    room = (RoomSeen(zone=zone, accelerators=4, ranks=3, ranks_close=2),)
    told = [
        facts_of(observe(replace(FLEX, room=each)), 0.0).flavors[0] for each in (room, (), None)
    ]
    assert [each.room for each in told] == [
        (FreeRoom(zone=zone, accelerators=4, ranks=3, ranks_close=2),),
        (),
        None,
    ]


def test_why_machines_cannot_be_asked_to_stand_close_is_passed_on() -> None:
    (facts,) = facts_of(observe(replace(FLEX, not_close="no level")), 0.0).flavors
    assert facts.not_close == "no level"


def test_when_booked_capacity_comes_and_how_long_it_stays_is_passed_on() -> None:
    (facts,) = facts_of(observe(FLEX), 1000.0).flavors
    assert (facts.eta_s, facts.max_run_s) == (900.0, 86_400.0)
    unknown = replace(FLEX, eta_s=None, max_run_s=None)
    (facts,) = facts_of(observe(unknown), 1000.0).flavors
    assert (facts.eta_s, facts.max_run_s) == (None, None)


def test_what_a_cluster_says_is_free_goes_before_what_follows_from_its_other_figures() -> None:
    (facts,) = facts_of(observe(FLEX), 1000.0).flavors
    assert (facts.headroom, facts.most) == (16, None)
    told = replace(FLEX, free=5, most=24)
    (facts,) = facts_of(observe(told), 1000.0).flavors
    assert (facts.headroom, facts.most) == (5, 24)


def test_whether_a_cluster_keeps_secrets_is_known_of_each_of_its_flavors() -> None:
    for keeps in (False, True):
        (facts,) = facts_of(replace(observe(FLEX), keeps_secrets=keeps), 1000.0).flavors
        assert facts.keeps_secrets is keeps


_REMEDIES = {
    Deed.WAITS: {Remedy.WIDEN, Remedy.MOVE},
    Deed.MOVES: {Remedy.MOVE},
    Deed.LEAVES: {Remedy.LEAVE},
}


@pytest.mark.parametrize("word", [each for each in Word if ROWS[each].deed in _REMEDIES])
def test_what_a_word_says_that_is_done_about_a_wait_is_done(word: Word) -> None:
    row = ROWS[word]
    assert row_for(REASON_OF[row.cause]).remedy in _REMEDIES[row.deed]


MISSING = "The queue lets nobody in, because a kind of machine that it names is not there"
NO_QUOTA = "The project may not have more of these machines in the cloud"
EVICTED = "The cluster put it out, because not all of its processes had started in time"


def make_word(sentence: str, **changes: str) -> WordSeen:
    word = WordSeen(
        word="A_WORD",
        sentence=sentence,
        fault="ORCHESTRATION",
        deed="It waits",
        advice="Ask the operators.",
        look_at="workload/x",
        raw="raw",
    )
    return replace(word, **changes)


@pytest.mark.parametrize(
    ("stage", "cause", "said", "expected"),
    [
        (Stage.QUEUED, Cause.QUEUE_STOPPED, make_word(MISSING), f"alpha: t{MISSING[1:]}"),
        (Stage.PROVISIONING, Cause.STOCKOUT, make_word(NO_QUOTA), f"alpha: t{NO_QUOTA[1:]}"),
        (
            Stage.PROVISIONING,
            Cause.PARTIAL_ARRIVAL,
            make_word("Some came"),
            "1 of 2 machines are here in alpha, the rest are out of stock",
        ),
        (
            Stage.PROVISIONING,
            Cause.NODES_COMING,
            make_word("Its machines are on their way", fault="NONE"),
            "1 of 2 machines are here in alpha, the rest are on their way",
        ),
        (
            Stage.QUEUED,
            Cause.WAITING_FOR_QUOTA,
            make_word("Its queue has not enough quota free"),
            "waiting for quota in alpha, 8 GPUs ahead of you",
        ),
        (Stage.QUEUED, Cause.WEDGED, make_word("\x1b[2J"), "alpha:  [2J"),
        (Stage.QUEUED, Cause.QUEUE_STOPPED, None, "the queue in alpha is stopped by its operators"),
    ],
)
def test_a_wait_is_told_in_one_sentence_by_the_clusters_own_word_for_what_is_wrong(
    stage: Stage, cause: Cause, said: WordSeen | None, expected: str
) -> None:
    story = Story().accepted().placed().prepared()
    placement = story.placement("alpha")
    told = "A long message. With advice that is told beside it."
    shown = placement_seen(
        placement,
        story.run,
        stage=stage,
        cause=cause,
        message=told,
        said=said,
        nodes_here=1,
        nodes_wanted=2,
    )
    assert report_of(placement, shown).message == expected


@pytest.mark.parametrize(
    ("gpus", "said"), [(None, ""), (0, ", first in line"), (24, ", 24 GPUs ahead of you")]
)
def test_how_many_are_ahead_is_said_where_it_is_known(gpus: int | None, said: str) -> None:
    story = Story().accepted().placed().prepared()
    placement = story.placement("alpha")
    shown = placement_seen(placement, story.run, ahead_gpus=gpus)
    assert report_of(placement, shown).message == f"waiting for quota in alpha{said}"


def test_an_end_is_told_by_the_clusters_own_word_with_what_helps() -> None:
    story = Story().accepted().placed().prepared()
    placement = story.placement("alpha")
    shown = placement_seen(
        placement,
        story.run,
        stage=Stage.ENDED,
        cause=Cause.EVICTED,
        message=f"{EVICTED}. Wait.",
        said=make_word(EVICTED),
    )
    ended = end_of(placement, shown)
    assert (ended.reason, ended.message) == (Reason.EVICTED, f"alpha: {EVICTED}. Wait.")
    unsaid = end_of(placement, replace(shown, said=None, message="it left"))
    assert unsaid.message == "alpha: its capacity went to somebody else (it left)"


NO_PYTHON = "The image has no python3, which the launcher needs"


@pytest.mark.parametrize(
    ("said", "codes", "reason", "words"),
    [
        (make_word(NO_PYTHON, fault="USER"), (), Reason.COMMAND_FAILED, f"t{NO_PYTHON[1:]}"),
        (make_word("It ended", fault="ORCHESTRATION"), (), Reason.GANG_NOT_WHOLE, "it ended"),
        # Before anything was done no fault of a machine is told apart from one of the code.
        (make_word("It was asked", fault="TRANSIENT"), (), Reason.GANG_NOT_WHOLE, "it was asked"),
        (make_word(NO_PYTHON, fault="USER"), (80,), Reason.GATE_TIMEOUT, "it stood at the gate"),
        (None, (1,), Reason.GANG_NOT_WHOLE, "one of its processes left the gate"),
    ],
)
def test_a_gang_that_ended_at_its_gate_is_told_by_what_was_wrong_with_it(
    said: WordSeen | None, codes: tuple[int, ...], reason: Reason, words: str
) -> None:
    story = Story().accepted().placed().prepared()
    placement = story.placement("alpha")
    members = tuple(
        MemberSeen(rank=0, member="m0", is_alive=False, exit_code=code, signal=None)
        for code in codes
    )
    shown = placement_seen(
        placement,
        story.run,
        stage=Stage.ENDED,
        cause=Cause.MEMBER_EXITED,
        message="told with advice",
        said=said,
        members=members,
    )
    ended = end_of(placement, shown)
    assert (ended.end, ended.reason) == (PlacementEnd.FAILED, reason)
    assert ended.message.startswith(f"alpha: {words}")
