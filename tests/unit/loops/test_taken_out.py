"""A cluster that was taken out of the configuration while a run has a leg there."""

from pathlib import Path

from broker.model.reasons import Reason
from tests.unit.loops.handheld import Handheld, handheld


async def waits_in_alpha(root: Path) -> str:
    """Bring a run to wait in alpha, the cheaper region; return its name."""
    async with handheld(root, "alpha", "beta", nodes_free=0) as broker:
        name = await broker.submit()
        await broker.settle()
        assert broker.leg(name).site.region == "alpha"
        assert broker.leg(name).is_waiting
        return name


async def test_its_legs_are_given_up_by_name_and_the_run_gets_another(tmp_path: Path) -> None:
    name = await waits_in_alpha(tmp_path)
    async with handheld(tmp_path, "beta", nodes_free=0) as broker:
        await broker.settle(1.0)
        run = broker.run(name)
        left, leg = run.placements.values()
        assert left.withdraw is not None
        assert left.withdraw.reason is Reason.CLUSTER_UNREACHABLE
        assert "taken out of the configuration" in left.withdraw.message
        assert (leg.site.region, leg.is_live, leg.withdraw) == ("beta", True, None)


async def test_what_stands_there_is_over_on_evidence_alone(tmp_path: Path) -> None:
    name = await waits_in_alpha(tmp_path)
    async with handheld(tmp_path, "beta", nodes_free=0) as broker:
        for _ in range(3):
            await broker.settle(3_600.0)
        assert next(iter(broker.run(name).placements.values())).is_live
        assert broker.leg(name).site.region == "beta"
        assert shown(broker) == [("alpha", False)]
    async with handheld(tmp_path, "alpha", "beta", nodes_free=0) as broker:
        for _ in range(3):
            await broker.settle(30.0)
        # It is configured again, answers, and shows nothing of the leg.
        assert not next(iter(broker.run(name).placements.values())).is_live


def shown(broker: Handheld) -> list[tuple[str, bool]]:
    """Return what people are shown of clusters beside those that are configured."""
    return [
        (facts.cluster, facts.is_configured)
        for region in broker.agents.answers.regions()
        for facts in broker.agents.answers.clusters(region)
        if not facts.is_configured
    ]
