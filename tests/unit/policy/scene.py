"""A run told by the real log beside a view of three regions, for the tests of policy."""

from dataclasses import replace
from itertools import count
from typing import Any

from broker.history.commands import RunCommand
from broker.history.lineage import resumable
from broker.model.capacity import FlavorFacts
from broker.model.intent import Terms
from broker.model.policy import RegionPolicy
from broker.model.run import Run
from broker.placement.standing import RegionStanding
from broker.placement.view import View
from broker.policy.facts import EpochFacts
from broker.policy.judge import judge
from tests.builders import Story, flat_egress, make_intent, make_terms
from tests.unit.placement.pictures import make_cluster, make_flavor

REGIONS = ("alpha", "beta", "gamma")


class Scene:
    """A story and the view that policy sees of it."""

    def __init__(self, terms: Terms | None = None, **workload: Any) -> None:
        intent = make_intent(terms=terms or make_terms())
        intent = replace(intent, workload=replace(intent.workload, **workload))
        self.story = Story(intent).accepted()
        self.view = View(resumable, flat_egress)
        self.facts: EpochFacts | None = None
        self._nonces = (f"nonce{number:07d}" for number in count(1))
        for region in REGIONS:
            self.sees(make_flavor(region, flavor="spot", region=region, accelerator="h100"))

    @property
    def run(self) -> Run:
        return self.story.run

    def sees(self, flavor: FlavorFacts, *, is_reachable: bool = True) -> None:
        """Let a cluster be seen with one flavor; unreachable is silent from now on."""
        facts = make_cluster(flavor, is_reachable=is_reachable)
        if not is_reachable:
            facts = replace(facts, silent_since_elapsed_s=self.story.now.elapsed_s)
        self.view.apply_cluster(facts)

    def falls_silent(self, region: str) -> None:
        flavor = next(f for f in self.view.flavors.values() if f.region == region)
        self.sees(flavor, is_reachable=False)

    def rules(
        self,
        region: str,
        *,
        drain: bool = False,
        cordon: bool = False,
        said: str = "",
        **policy: Any,
    ) -> None:
        standing = RegionStanding(
            region=region,
            policy=replace(RegionPolicy(), **policy),
            is_cordoned=cordon,
            is_draining=drain,
            message=said,
        )
        self.view.apply_region(standing)

    def says(self, **facts: Any) -> None:
        """Set what is seen of the open epoch."""
        self.facts = EpochFacts(epoch=self.story.epoch.id, **facts)

    def told(self) -> tuple[RunCommand, ...]:
        """Judge the run now."""
        self.view.apply_run(self.run)
        return judge(self.view, self.run, self.facts, self.story.now, self._nonces)

    def told_after(self, seconds: float) -> tuple[RunCommand, ...]:
        self.story.wait(seconds)
        return self.told()

    def obeys(self) -> tuple[RunCommand, ...]:
        """Judge the run, and have the log take all that is commanded."""
        commands = self.told()
        self.story.do(*commands)
        return commands
