"""A start reads what is live, and not what ever ran."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.history.commands import CancelRun, WarnRun
from broker.model.reasons import Reason
from broker.store.batch import SNAPSHOT_EVERY, Order
from broker.store.recovery import LIVE_SNAPSHOTS, LIVE_TAILS, SMALL_STREAMS
from tests.builders import BROKER
from tests.unit.store.ledgers import committing, submit_of

CANCEL = CancelRun(grace_s=0.0, message="enough")


@pytest.mark.parametrize(
    ("query", "first"),
    [
        (LIVE_SNAPSHOTS, "SCAN r USING INDEX runs_unsettled"),
        (f"select e.position {LIVE_TAILS}", "SCAN r USING INDEX runs_unsettled"),
        (f"select e.position {SMALL_STREAMS}", "SCAN t"),
    ],
)
def test_only_an_index_of_the_few_is_read_whole(tmp_path: Path, query: str, first: str) -> None:
    with committing(tmp_path / "broker.db") as (_, _, database):
        steps = [row[3] for row in database.execute(f"explain query plan {query}")]
    assert steps[0] == first
    assert all(step.startswith(("SEARCH", "USE TEMP B-TREE")) for step in steps[1:])


def test_settled_runs_are_left_on_the_disk_until_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "broker.db"
    submits = [submit_of(f"run-{n}") for n in range(20)]
    with committing(path) as (committer, _, _):
        for command_of in (lambda s: s, lambda _: CANCEL):
            committer.commit(
                [Order(stream=s.name, command=command_of(s), actor=BROKER) for s in submits]
            )
        committer.commit([Order(stream=(s := submit_of("live")).name, command=s, actor=BROKER)])
    with committing(path) as (_, picture, _):
        assert list(picture.live) == ["teams/vision/runs/live"]
        run = picture.run(submits[0].name)
        assert run is not None
        assert run.is_ended


def test_few_events_of_a_live_run_are_after_its_snapshot(tmp_path: Path) -> None:
    path = tmp_path / "broker.db"
    submit = submit_of("digits")
    with committing(path) as (committer, picture, database):
        committer.commit([Order(stream=submit.name, command=submit, actor=BROKER)])
        for n in range(5 * SNAPSHOT_EVERY):
            warn = WarnRun(reason=Reason.UNKNOWN, message=f"warning {n}")
            committer.commit([Order(stream=submit.name, command=warn, actor=BROKER)])
        tail = database.execute(f"select count(*) {LIVE_TAILS}").fetchone()[0]
        assert tail < SNAPSHOT_EVERY
        live = dict(picture.live)
    with committing(path) as (_, picture, _):
        assert picture.live == live
