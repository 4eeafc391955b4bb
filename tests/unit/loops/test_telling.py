"""What a cluster says beside its figures: each thing with its source and time, cut and cleaned."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from broker.loops.telling import (
    LINES_BYTES_MAX,
    LINES_MAX,
    OF_A_GANG,
    capacity_of,
    kept_of,
    last_lines,
    unknown_words,
    word_of,
)
from broker.model.capacity import FlavorKey
from broker.model.capacity_seen import (
    CapacitySeen,
    ClusterWord,
    FlavorSaid,
    HeardSignal,
    KnownThing,
    PodProfile,
)
from broker.model.reasons import FailureClass
from regions.capacity import FlavorSeen, KnownSeen, ProfileSeen, QueueSeen, SignalSeen
from regions.cluster import PlacementSeen, WordSeen
from regions.launcher.words import can_be_told
from tests.builders import Story
from tests.unit.loops.seeing import CLUSTER, NOW, observation, placement_seen, sight_of, silent

KEY = FlavorKey(cluster=CLUSTER, queue="ours", flavor="spot")
SIGNAL = SignalSeen(
    queue="ours",
    flavor="spot",
    kind="STOCKOUT",
    age_s=60.0,
    source="GKE node pool condition",
    detail="none left",
    gpus=0,
    wait_s=None,
    serial=1,
)
KNOWN = KnownSeen(
    queue="ours", flavor="spot", what="GPU quota", words="8 of 64 free", source="Google", age_s=5.0
)
SECRET = WordSeen(
    word="SECRET_MISSING",
    sentence="A secret is not there: hub",
    fault="USER",
    deed="It takes the gang out",
    advice="Have it created.",
    look_at="pod/x",
    raw='secret "hub" not found',
)


def make_flavor(**changes: Any) -> FlavorSeen:
    flavor = FlavorSeen(
        flavor="spot",
        accelerator="h100",
        accelerators_per_node=8,
        capacity_type="SPOT",
        zones=(),
        price_per_gpu_hour=Decimal(2),
        nominal=64,
        reserved=8,
        used=0,
        parked=8,
        borrowable=0,
        nodes_free=0,
        nodes_coming=0,
        max_nodes=None,
        startup_s=None,
        preemption_notice_s=None,
    )
    return replace(flavor, **changes)


def make_seen(**said: Any) -> PlacementSeen:
    story = Story().accepted().placed()
    (placement,) = story.run.placements.values()
    return placement_seen(placement, story.run, said=replace(SECRET, **said))


def test_signals_are_told_by_kind_the_last_of_each_with_how_many_there_were() -> None:
    came = replace(SIGNAL, kind="NODES_CAME", age_s=10.0, source="k3v9q0aa1b2c", wait_s=90.0)
    signals = (replace(SIGNAL, age_s=900.0, detail="old"), SIGNAL, came)
    found = capacity_of(sight_of(signals=signals)).signals
    stockout = HeardSignal(
        key=KEY,
        kind="STOCKOUT",
        count=2,
        elapsed_s=NOW.elapsed_s - 60.0,
        source="GKE node pool condition",
        detail="none left",
        gpus=0,
        wait_s=None,
        is_unknown=False,
    )
    # Whose gang it was is not told: regions are read by all teams.
    assert found == (
        replace(
            stockout,
            kind="NODES_CAME",
            count=1,
            elapsed_s=NOW.elapsed_s - 10.0,
            source=OF_A_GANG,
            wait_s=90.0,
        ),
        stockout,
    )


def test_what_is_known_has_its_source_and_its_time() -> None:
    parts = (("environment", "NCCL_DEBUG"),)
    profile = ProfileSeen(name="spot", widens=("Runs as root.",), is_restricted=False, parts=parts)
    queue = QueueSeen(
        queue="ours",
        is_stopped=False,
        pending=0,
        pending_gpus=0,
        flavors=(make_flavor(profile=profile),),
    )
    told = capacity_of(sight_of(queues=(queue,), known=(KNOWN,), notes=("a zone is silent",)))
    assert told == CapacitySeen(
        flavors={
            KEY: FlavorSaid(
                profile=PodProfile(
                    name="spot", widens=("Runs as root.",), is_restricted=False, parts=parts
                ),
                parked=8,
            )
        },
        known=(
            KnownThing(
                key=KEY,
                what="GPU quota",
                words="8 of 64 free",
                source="Google",
                elapsed_s=NOW.elapsed_s - 5.0,
            ),
        ),
        notes=("a zone is silent",),
    )


def test_of_a_cluster_that_was_never_seen_nothing_is_told() -> None:
    assert capacity_of(silent()) == CapacitySeen()


def test_a_silent_cluster_is_told_of_as_it_was() -> None:
    before = sight_of(signals=(SIGNAL,), known=(KNOWN,))
    assert capacity_of(silent(before)) == capacity_of(before)


def test_a_word_says_whose_fault_it_is_and_what_is_done() -> None:
    assert word_of(make_seen()) == ClusterWord(
        word="SECRET_MISSING",
        failure=FailureClass.USER,
        deed="It takes the gang out",
        advice="Have it created.",
        look_at="pod/x",
        raw='secret "hub" not found',
        is_unknown=False,
    )
    nobody = word_of(make_seen(fault="NONE"))
    assert nobody is not None
    assert nobody.failure is None
    assert word_of(None) is None
    assert word_of(replace(make_seen(), said=None)) is None


def test_of_what_a_process_printed_last_the_end_is_kept_and_cleaned() -> None:
    text = "\n".join(f"step {at}\x1b[2J" for at in range(100))
    kept = last_lines(text).splitlines()
    assert (len(kept), kept[-1]) == (LINES_MAX, "step 99 [2J")
    long = last_lines("\n".join("\u00e9" * 2000 for _ in range(30)))
    assert len(long.encode()) <= LINES_BYTES_MAX
    assert last_lines("") == ""
    word = word_of(make_seen(last_lines="one\ntwo\n"))
    assert word is not None
    assert word.last_lines == "one\ntwo"


def test_who_finds_no_output_of_a_failed_gang_is_told_what_the_log_kept_of_it() -> None:
    placement = Story().accepted().placed().placement("alpha")
    assert kept_of(placement) == b""
    assert kept_of(replace(placement, word=word_of(make_seen()))) == b""
    failed = replace(placement, word=word_of(make_seen(last_lines="no space left")))
    assert kept_of(failed).decode().splitlines()[1:] == ["no space left"]


def test_what_nobody_has_a_word_for_is_named_by_where_it_was_said() -> None:
    strange = make_seen(word="UNKNOWN", unknown="Container.waiting:Frobnicating")
    moon = replace(SIGNAL, kind="MOON", serial=7)
    seen = observation([strange], signals=(SIGNAL, moon))
    assert list(unknown_words(seen)) == [
        (strange.uid, "Container.waiting:Frobnicating"),
        ("signal 7", "Signal:MOON"),
    ]
    word = word_of(strange)
    assert word is not None
    assert word.is_unknown
    shown = capacity_of(sight_of(signals=(SIGNAL, moon))).signals
    assert {one.kind: one.is_unknown for one in shown} == {"STOCKOUT": False, "MOON": True}


texts = st.sampled_from(["\ud800", "\x1b[2J", ""]) | st.text(max_size=9_000)


@given(st.lists(texts, min_size=6, max_size=6), st.floats(), st.integers())
def test_whatever_is_said_can_be_told(words: list[str], age_s: float, gpus: int) -> None:
    signal = replace(SIGNAL, kind=words[0], source=words[1], detail=words[2], gpus=gpus)
    known = replace(KNOWN, what=words[3], words=words[4], source=words[5], age_s=age_s)
    told = capacity_of(
        sight_of(signals=(replace(signal, age_s=age_s, wait_s=age_s),), known=(known,) * 300)
    )
    texts = [one.kind + one.source + one.detail for one in told.signals]
    texts += [one.what + one.words + one.source for one in told.known]
    assert all(can_be_told(text) and len(text) < 2_000 for text in texts)
    assert len(told.known) <= 200
    word = word_of(make_seen(word=words[0], deed=words[1], advice=words[2], raw=words[3]))
    assert word is not None
    assert can_be_told(word.word + word.deed + word.advice + word.raw)
