"""A run that only its user can mend, from what its cluster says to its end, by hand."""

from pathlib import Path

from broker.model.reasons import Reason
from broker.model.run import Placement
from broker.model.states import RunState
from broker.service.advice import advice_for
from regions.cluster import Cause, Stage
from tests.unit.loops.handheld import Handheld, handheld
from tests.unit.loops.seeing import placement_seen
from tests.unit.loops.test_telling import SECRET

TRIES = 4  # one and three restarts


async def is_refused(broker: Handheld, name: str) -> Placement:
    """Say of the run's next leg that its secret is not there, until it is taken out."""
    while not broker.run(name).waiting_placements:
        await broker.settle(seconds=5.0)
    leg = broker.leg(name)
    cluster = broker.clusters[leg.site.region]
    seen = placement_seen(
        leg, broker.run(name), stage=Stage.PROVISIONING, cause=Cause.REFUSED, said=SECRET
    )
    cluster.show(seen)
    while broker.run(name).placements[leg.id].withdraw is None:
        await broker.settle(seconds=1.0)
    cluster.show()
    await broker.settle(seconds=1.0)
    return broker.run(name).placements[leg.id]


async def test_a_secret_that_is_nowhere_ends_its_run_and_says_what_helps(tmp_path: Path) -> None:
    async with handheld(tmp_path, "alpha", "beta", nodes_free=0) as broker:
        name = await broker.submit()
        await broker.settle()
        tried = []
        while not broker.run(name).is_ended:
            tried.append(await is_refused(broker, name))
        run = broker.run(name)
        regions = [leg.site.region for leg in tried]
        assert len(tried) == len(run.placements) == TRIES
        assert regions[:2] == ["alpha", "beta"]
        assert (run.state, run.why.reason) == (RunState.FAILED, Reason.USER_RESTARTS_SPENT)
        assert run.why.message == (
            f"{regions[-1]}: a secret is not there: hub; 3 restarts are spent. Have it created."
        )
        assert advice_for(run, run.updated) == ["When that is mended: `broker resume digits`."]
        assert {leg.word.word for leg in tried if leg.word is not None} == {SECRET.word}
