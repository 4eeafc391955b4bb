"""What a start at a place takes first: step, bytes, time and money, and which way is cheaper."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.model.capacity import Comparison, Offer
from broker.model.checkpoint import Checkpoint, CheckpointRef, EpochId
from broker.model.copying import GIB, CopyKind, CopySpend, EgressPrice
from broker.model.image import PinnedImage
from broker.model.intent import Terms
from broker.model.preparing import Preparation, ResumeFrom
from broker.model.reasons import Reason
from broker.model.run import Run
from broker.placement.content import (
    COPY_RATE_BYTES_PER_S,
    LEAST_REDONE_S,
    Stakes,
    preparation,
    prepared_words,
    source_of,
)
from broker.placement.explain import explain, why_there
from broker.placement.view import View
from tests.builders import flat_egress
from tests.unit.placement.pictures import ANY, at, make_cluster, make_flavor, waiting_run

SAVED = CopyKind.CHECKPOINT
HOUR_S = 3600.0
STAKES = Stakes(hourly=Decimal(16), delay_hourly=Decimal(24))


def saved(step: int, *regions: str, gib: int = 500, hours: float = 0.0) -> Checkpoint:
    """Return a checkpoint that counts, written so many hours after the run began."""
    return Checkpoint(
        ref=CheckpointRef(epoch=EpochId(number=1, nonce="n" * 12), step=step, digest=f"{step:064}"),
        size_bytes=gib * GIB,
        home=regions[0],
        written_wall_s=hours * HOUR_S,
        regions=frozenset(regions),
        is_sealed=True,
    )


def having(*checkpoints: Checkpoint) -> View:
    """Return a view in which every run has these checkpoints, the preferred first."""
    return View(lambda run: checkpoints, flat_egress)


def found(view: View, region: str = "beta", run: Run | None = None) -> Preparation:
    return preparation(view, run or waiting_run(), region, STAKES)


def test_a_run_that_saved_nothing_begins_and_one_whose_newest_is_there_takes_nothing() -> None:
    assert found(having()) == Preparation(resume=ResumeFrom.NOTHING)
    here = found(having(saved(200, "alpha", "beta")))
    assert here == Preparation(resume=ResumeFrom.NEWEST_HERE, resume_step=200)
    assert prepared_words(here) == "it resumes from step 200, which is there"


def test_a_copy_takes_as_long_as_copies_between_the_two_took_and_costs_its_egress() -> None:
    view = having(saved(200, "alpha"))
    usual = found(view)
    assert usual.saved_s == 500 * GIB / COPY_RATE_BYTES_PER_S
    view.rates.tell(SAVED, "alpha", "beta", float(GIB))
    assert found(view) == Preparation(
        resume=ResumeFrom.NEWEST_COPIED,
        resume_step=200,
        checkpoint_bytes=500 * GIB,
        saved_s=500.0,
        checkpoint_usd=Decimal(10),
    )
    assert prepared_words(found(view)) == (
        "it resumes from step 200 once its 500.0 GiB are copied; about 8 min and $10.00 on the way"
    )


def test_what_is_done_again_costs_the_gang_and_is_weighed_against_the_copy() -> None:
    view = having(saved(200, "alpha", hours=2.0), saved(100, "alpha", "beta", hours=1.5))
    # A copy: 10 dollars and 10 minutes of delay, 14 in all. Half an hour again: 8 and 12.
    view.rates.tell(SAVED, "alpha", "beta", 500 * GIB / 600.0)
    assert found(view).resume is ResumeFrom.NEWEST_COPIED
    # 27 minutes of delay cost 10.80: half an hour again is cheaper now.
    view.rates.tell(SAVED, "alpha", "beta", 500 * GIB / 1620.0)
    again = found(view)
    assert again == Preparation(
        resume=ResumeFrom.OLDER_HERE, resume_step=100, redone_s=1800.0, redone_usd=Decimal(8)
    )
    assert prepared_words(again) == (
        "it resumes from step 100, which is there, and does 30 min again for $8.00"
    )


def test_what_nobody_waits_for_is_done_again_whatever_it_costs() -> None:
    view = having(saved(200, "alpha", hours=90.0), saved(100, "alpha", "beta"))
    patience_s = view.region("beta").policy.patience.content_s
    view.rates.tell(SAVED, "alpha", "beta", 500 * GIB / (patience_s + 1.0))
    assert found(view).resume is ResumeFrom.OLDER_HERE
    view.rates.tell(SAVED, "alpha", "beta", 500 * GIB / (patience_s - 1.0))
    assert found(view).resume is ResumeFrom.NEWEST_COPIED


def frugal(budget: str) -> Run:
    """Return a run whose copies may cost so much."""
    return waiting_run(terms=Terms(capacity_types=ANY, copies_budget=Decimal(budget)))


def test_a_copy_beyond_what_the_run_may_spend_is_not_waited_for() -> None:
    newest, older = saved(200, "alpha", hours=90.0), saved(100, "alpha", "beta")
    view = having(newest, older)
    view.rates.tell(SAVED, "alpha", "beta", 1e12)
    assert found(view, run=frugal("10")).resume is ResumeFrom.NEWEST_COPIED
    assert found(view, run=frugal("9.99")).resume is ResumeFrom.OLDER_HERE
    paid = CopySpend(region="gamma", copies=1, sent_bytes=1, usd=Decimal(4))
    poor = replace(frugal("13"), copy_spends=(paid,))
    assert found(view, run=poor).resume is ResumeFrom.OLDER_HERE
    # Nothing stands in beta: no start there can come.
    view = having(saved(200, "alpha", gib=500))
    view.apply_cluster(make_cluster(make_flavor("beta", region="beta", nodes_free=8)))
    view.rates.tell(SAVED, "alpha", "beta", 1e12)
    (no,) = explain(view, frugal("9.99"), at(1000.0)).refusals
    assert (no.reason, no.message) == (
        Reason.BUDGET_TOO_SMALL,
        "copying its checkpoint there costs about $10.00, $9.99 of its budget for copies is left",
    )


def test_a_price_that_nobody_knows_is_said_to_be_a_guess() -> None:
    def doubtful(source: str, destination: str) -> EgressPrice:
        return EgressPrice(per_gib=Decimal(1), doubt=f"nobody knows {source} to {destination}")

    view = View(lambda run: (saved(200, "alpha", gib=1),), doubtful)
    told = found(view)
    assert (told.egress_usd, told.doubt) == (Decimal(1), "nobody knows alpha to beta")
    assert prepared_words(told).endswith("; nobody knows alpha to beta")


def test_a_bundle_and_an_image_that_are_missing_are_brought_too() -> None:
    image = PinnedImage(name=f"r.example/llm@sha256:{'a' * 64}", size_bytes=10 * GIB)
    run = waiting_run()
    workload = replace(run.intent.workload, bundle_digest="b" * 64)
    run = replace(run, image=image, intent=replace(run.intent, workload=workload))
    view = having()
    view.apply_registry("beta", 1e8)
    view.rates.tell(CopyKind.IMAGE, "alpha", "beta", 10 * GIB / 60.0)
    view.apply_image(image.name, "alpha", is_there=True)
    told = found(view, run=run)
    assert (told.image_bytes, told.has_bundle_to_come) == (10 * GIB, True)
    assert told.wait_s == pytest.approx(62.0)
    assert told.egress_usd == Decimal("0.2")
    assert prepared_words(told) == (
        "its image of 10.0 GiB is brought first; about 62 s and $0.20 on the way"
    )
    view.apply_image(image.name, "beta", is_there=True)
    view.apply_bundle("b" * 64, frozenset({"beta"}))
    assert found(view, run=run) == Preparation(resume=ResumeFrom.NOTHING)


def test_a_copy_is_read_at_its_home_while_it_stands_there() -> None:
    assert source_of(saved(1, "gamma", "alpha")) == "gamma"
    assert source_of(replace(saved(1, "gamma"), regions=frozenset({"beta", "alpha"}))) == "alpha"
    assert source_of(replace(saved(1, "gamma"), regions=frozenset())) == ""


@given(
    hours=st.floats(0.0, 100.0),
    took_s=st.floats(0.1, 5000.0),
    gib=st.integers(0, 5000),
    hourly=st.decimals(0, 1000, places=2),
    delay=st.decimals(0, 1000, places=2),
)
def test_no_way_that_is_offered_costs_more_than_another_that_is_open(
    hours: float, took_s: float, gib: int, hourly: Decimal, delay: Decimal
) -> None:
    newest = saved(200, "alpha", gib=gib, hours=hours)
    older = saved(100, "alpha", "beta")
    at_stake = Stakes(hourly=hourly, delay_hourly=delay)

    def ask(*checkpoints: Checkpoint) -> Preparation:
        view = having(*checkpoints)
        view.rates.tell(SAVED, "alpha", "beta", max(1.0, gib * GIB / took_s))
        return preparation(view, waiting_run(), "beta", at_stake)

    def worth(one: Preparation) -> float:
        return float(one.usd) + float(delay) * (one.wait_s + one.redone_s) / HOUR_S

    patience_s = having().region("beta").policy.patience.content_s
    taken, copied = ask(newest, older), ask(newest)
    redone = max(LEAST_REDONE_S / HOUR_S, hours) * (float(hourly) + float(delay))
    if copied.saved_s <= patience_s:
        assert worth(taken) <= min(worth(copied), redone) + 1e-3
    else:
        assert taken.resume is ResumeFrom.OLDER_HERE


def offers(view: View, run: Run) -> dict[str, Offer]:
    return {one.region: one for one in explain(view, run, at(1000.0)).offers}


def test_of_two_alike_places_the_one_that_has_the_checkpoint_is_the_better_buy() -> None:
    view = having(saved(200, "beta", gib=2000))
    for region in ("alpha", "beta"):
        flavor = make_flavor(region, region=region, nodes_free=8)
        view.apply_cluster(make_cluster(flavor))
    view.rates.tell(SAVED, "beta", "alpha", 2000 * GIB / 60.0)
    run = waiting_run()
    first, second = explain(view, run, at(1000.0)).compared
    assert (first.offer.region, second.offer.region) == ("beta", "alpha")
    assert second.comparison is Comparison.CONTENT
    assert second.message.startswith("its content costs $10.00 more for an hour of progress: ")
    assert "once its 2.0 TiB are copied" in second.message
    assert "once its 2.0 TiB are copied" in why_there(second.offer)
    assert "resumes" not in why_there(first.offer)
