"""The picture that plans are made from: indexed, and kept up to date by changes.

The rule: a change costs what changed. Runs that wait are kept in groups of alike runs, each in
order of rank; a change marks only the groups and runs that it could help, and ``plan`` looks at
those alone. Nothing here decides. Read ``View.apply_run`` first.

The shell applies every change of the log (``apply_run`` and its siblings), asks ``plan``, calls
``settle`` with its answer, and hands the commands to the log; what the log refuses it reports by
``refused``.
"""

from collections import deque
from decimal import Decimal

from broker.model.capacity import ClusterFacts, FlavorFacts, FlavorKey, Signal
from broker.model.checkpoint import Checkpoint
from broker.model.copying import EgressPriceOf
from broker.model.policy import TeamStanding
from broker.model.reasons import Reason
from broker.model.run import Placement, Run
from broker.model.states import PlacementState, RunState
from broker.placement.backoff import ready_at_s
from broker.placement.choices import Plan
from broker.placement.demand import Demand, demand_of, rank_of
from broker.placement.group import Group
from broker.placement.line import Agenda
from broker.placement.load import Load
from broker.placement.outlook import FORGET_AFTER_S, Outlook, came_since, outlook
from broker.placement.rates import Rates
from broker.placement.standing import RegionStanding, Resumable

SIGNALS_KEPT = 32  # per flavor: at one a minute half an hour of an outage, and no more memory
TOUCHES_KEPT = 256  # a group behind by more is judged anew as a whole
CROWD_WINDOW_S = 120.0
REFUSED_AGAIN_S = 15.0  # what the log refused once it would refuse again at once
DUE_PER_TICK = 256
IMAGES_KEPT = 10_000  # what is forgotten is asked for again
_IN_LINE = frozenset({PlacementState.PREPARING, PlacementState.QUEUED})
_LOOKED_AT = frozenset({RunState.QUEUED, RunState.STARTING, RunState.RUNNING})


class View:
    """All that a plan reads. One writer; ``plan`` changes nothing of it."""

    def __init__(self, resumable: Resumable, egress_price: EgressPriceOf) -> None:
        """Make an empty one; ``egress_price`` tells what a GiB costs between two regions."""
        self._resumable = resumable
        self.egress_price = egress_price
        self._saved: tuple[Run, tuple[Checkpoint, ...]] | None = None
        self.clusters: dict[str, ClusterFacts] = {}
        self.flavors: dict[FlavorKey, FlavorFacts] = {}
        self.regions: dict[str, RegionStanding] = {}
        self.teams: dict[str, TeamStanding] = {}
        self.runs: dict[str, Run] = {}
        self.groups: dict[Demand, Group] = {}
        self.load = Load()
        self.dearest: dict[str, Decimal] = {}
        self.keys_of: dict[str, tuple[FlavorKey, ...]] = {}
        self.pulse = 0  # grows with every touch of a flavor
        self.layout = 0  # grows when flavors come or go
        self._touched: deque[FlavorKey] = deque(maxlen=TOUCHES_KEPT)
        self._stamps: dict[FlavorKey, int] = {}
        self.dirty: dict[Group, None] = {}
        self.attention: dict[str, None] = {}
        self.agenda = Agenda()
        self.losses: deque[float] = deque(maxlen=256)
        self.moves: deque[tuple[float, str]] = deque(maxlen=256)
        self.bundle_regions: dict[str, frozenset[str]] = {}
        self.rates = Rates()
        self.image_regions: dict[str, frozenset[str]] = {}
        self.image_words: dict[tuple[str, str], tuple[Reason, str]] = {}
        self.pull_rates: dict[str, float] = {}
        self._signals: dict[FlavorKey, deque[Signal]] = {}
        self._group_of: dict[str, Group] = {}
        self._outlooks: dict[tuple[FlavorKey, int], tuple[int, float, Outlook]] = {}
        self._by_accelerator: dict[str, dict[Group, None]] = {}
        self._by_team: dict[str, dict[Group, None]] = {}

    # ---- Changes ------------------------------------------------------------------------------

    def apply_run(self, run: Run) -> None:
        """Take in a run as the log now has it; one that ended is forgotten."""
        before = self.runs.get(run.name)
        held = self.load.held(run.intent.team)
        if before is not None:
            self.load.put(before, -1)
            if before.open_epoch is not None and run.state is RunState.QUEUED:
                self.losses.append(run.updated.elapsed_s)
            if run.has_started:
                self.moves.extend(
                    (leg.added_s, leg.site.region)
                    for leg in run.live_placements
                    if leg.id not in before.placements
                )
            self._doubt_bundle(before, run)
        if run.is_ended:
            self.runs.pop(run.name, None)
            self.agenda.drop(run.name)
            self.attention.pop(run.name, None)
        else:
            self.runs[run.name] = run
            self.load.put(run, 1)
        self._stand_in_line(run)
        if before is not None:
            self._touch_freed(before, run)
        if self.load.held(run.intent.team) < held:
            self._touch_team(run.intent.team)
        if run.state in _LOOKED_AT:
            self.attention[run.name] = None

    def apply_cluster(self, facts: ClusterFacts) -> None:
        """Take in a cluster as last seen."""
        before = self.clusters.get(facts.cluster)
        self.clusters[facts.cluster] = facts
        known = {} if before is None else {flavor.key: flavor for flavor in before.flavors}
        is_turned = before is None or _ability(before) != _ability(facts)
        fresh = {flavor.key: flavor for flavor in facts.flavors}
        if fresh.keys() != known.keys():
            for key in known.keys() - fresh.keys():
                del self.flavors[key]
            self.flavors.update(fresh)
            self._index_flavors()
        for key, flavor in fresh.items():
            if is_turned or known.get(key) != flavor:
                self.flavors[key] = flavor
                self._raise_dearest(flavor)
                self.touch_key(key)

    def apply_region(self, standing: RegionStanding) -> None:
        """Take in what ops set for a region."""
        before = self.regions.get(standing.region)
        if before != standing:
            self.regions[standing.region] = standing
            if not standing.is_surveyed or (before is not None and not before.is_surveyed):
                # Every run waits for a survey, wherever its legs are.
                for name in self.runs:
                    self.touch(name)
            for key, flavor in self.flavors.items():
                if flavor.region == standing.region:
                    self.touch_key(key)

    def apply_team(self, team: str, standing: TeamStanding) -> None:
        """Take in a team's caps and what it has spent."""
        if self.teams.get(team) != standing:
            self.teams[team] = standing
            self._touch_team(team)

    def apply_signal(self, signal: Signal) -> None:
        """Take in one observation about capacity."""
        kept = self._signals.setdefault(signal.key, deque(maxlen=SIGNALS_KEPT))
        while kept and kept[0].elapsed_s < signal.elapsed_s - FORGET_AFTER_S:
            kept.popleft()
        kept.append(signal)
        self.touch_key(signal.key)

    def apply_bundle(self, digest: str, regions: frozenset[str]) -> None:
        """Take in where a bundle stands, verified."""
        self.bundle_regions[digest] = regions

    def _doubt_bundle(self, before: Run, run: Run) -> None:
        """Forget that a bundle stands where a gang found it damaged or gone, until it is mended."""
        digest = run.intent.workload.bundle_digest
        for leg in before.live_placements if digest in self.bundle_regions else ():
            after = run.placements.get(leg.id)
            if after is not None and after.why.reason is Reason.BUNDLE_DAMAGED:
                self.bundle_regions[digest] -= {leg.site.region}

    def apply_registry(self, region: str, pull_bytes_per_s: float) -> None:
        """Take in that starts in a region pull their image, and how fast a new machine does."""
        self.pull_rates[region] = pull_bytes_per_s

    def apply_image(self, image: str, region: str, *, is_there: bool) -> None:
        """Take in whether a region's registry has an image. It is asked again before a start."""
        here = self.image_regions.get(image, frozenset())
        self.image_regions[image] = here | {region} if is_there else here - {region}
        self.image_words.pop((image, region), None)
        while len(self.image_regions) > IMAGES_KEPT:
            del self.image_regions[next(iter(self.image_regions))]

    def tell_image(self, image: str, region: str, word: tuple[Reason, str]) -> None:
        """Take in why an image is not in a region, or why that is not known."""
        self.image_words[image, region] = word
        while len(self.image_words) > IMAGES_KEPT:
            del self.image_words[next(iter(self.image_words))]

    # ---- Marks ----------------------------------------------------------------------------------

    def settle(self, plan: Plan) -> None:
        """Take off the marks that a plan has answered; call it before its commands are handled."""
        for group in plan.looked:
            self.dirty.pop(group, None)
        for name in plan.met:
            self.attention.pop(name, None)
            self.agenda.drop(name)
        for name, at_s in plan.looks:
            if name in self.runs:
                self.agenda.set(name, at_s)

    def refused(self, name: str, now_s: float) -> None:
        """Look at a run again, a little later: the log refused what was planned for it."""
        self.agenda.set(name, now_s + REFUSED_AGAIN_S)

    def touch(self, name: str) -> None:
        """Look at a run at the next tick."""
        if name in self.runs:
            self.attention[name] = None
            group = self._group_of.get(name)
            if group is not None:
                self.dirty[group] = None

    def touch_key(self, key: FlavorKey) -> None:
        """Look again at the groups that a flavor could serve, and judge it anew."""
        self.pulse += 1
        self._stamps[key] = self.pulse
        self._touched.append(key)
        flavor = self.flavors.get(key)
        if flavor is None:
            return
        for group in self._by_accelerator.get(flavor.accelerator, ()):
            if group.could_use(flavor):
                self.dirty[group] = None

    # ---- Questions ------------------------------------------------------------------------------

    def outlook(self, flavor: FlavorFacts, now_s: float, gpus: int) -> Outlook:
        """Return what the signals of a flavor say now to a gang of ``gpus``."""
        stamp = self._stamps.get(flavor.key, 0)
        known = self._outlooks.get((flavor.key, gpus))
        # A tenth of the shortest look-again time changes no choice.
        if known is not None and known[0] == stamp and now_s - known[1] < 3.0:
            return known[2]
        fresh = outlook(
            self._signals.get(flavor.key, ()),
            flavor.capacity_type,
            now_s,
            gpus=gpus,
            half_life_s=self.region(flavor.region).policy.patience.stockout_half_life_s,
        )
        self._outlooks[flavor.key, gpus] = (stamp, now_s, fresh)
        return fresh

    def has_come_since(self, flavor: FlavorFacts, since_s: float, gpus: int) -> bool:
        """Return whether nodes for ``gpus`` were seen to come to a flavor, asked for since then."""
        return came_since(self._signals.get(flavor.key, ()), since_s, gpus)

    def touched_since(self, pulse: int) -> list[FlavorKey] | None:
        """Return the flavors touched after a pulse, None when that is too long ago to know."""
        count = self.pulse - pulse
        if count > len(self._touched):
            return None
        recent = (self._touched[-number] for number in range(1, count + 1))
        return [key for key in dict.fromkeys(recent) if key in self.flavors]

    def saved(self, run: Run) -> tuple[Checkpoint, ...]:
        """Return what the run could resume from, the preferred first, wherever each stands."""
        # A run is asked about for each place in turn: the last answer is all that is kept.
        if self._saved is None or self._saved[0] is not run:
            self._saved = (run, self._resumable(run))
        return self._saved[1]

    def newest(self, run: Run) -> Checkpoint | None:
        """Return the checkpoint that the run would resume from, wherever it stands, or None."""
        return next(iter(self.saved(run)), None)

    def region(self, region: str) -> RegionStanding:
        """Return a region's standing; the documented defaults when ops set nothing."""
        return self.regions.get(region) or RegionStanding(region=region)

    def lacks_image(self, run: Run, region: str) -> bool:
        """Return whether a start in the region would miss the run's image, as far as is known."""
        image = run.image
        if image is None or region not in self.pull_rates:
            return False
        return region not in self.image_regions.get(image.name, frozenset())

    def pull_s(self, run: Run, region: str) -> float:
        """Return how long a machine that has nothing of the run's image pulls it, in seconds."""
        rate = self.pull_rates.get(region)
        return 0.0 if run.image is None or rate is None else run.image.size_bytes / rate

    def group_of(self, name: str) -> Group | None:
        """Return the group in which a waiting run stands, or None."""
        return self._group_of.get(name)

    def crowd(self, now_s: float) -> int:
        """Return how many runs lost their place of late."""
        return sum(1 for at_s in self.losses if now_s - at_s <= CROWD_WINDOW_S)

    def moved(self, now_s: float) -> list[str]:
        """Return the region of each leg that runs which had started got of late."""
        return [region for at_s, region in self.moves if now_s - at_s <= CROWD_WINDOW_S]

    # ---- Indexes --------------------------------------------------------------------------------

    def _stand_in_line(self, run: Run) -> None:
        demand = demand_of(run) if is_in_line(run) else None
        old = self._group_of.get(run.name)
        if old is not None and old.demand != demand:
            self._leave(run.name, old)
            old = None
        if demand is None:
            return
        group = old or self.groups.get(demand) or self._open_group(demand)
        group.line.add(rank_of(run))
        self._group_of[run.name] = group
        not_before_s = ready_at_s(run)
        if not_before_s is not None:
            self.agenda.set(run.name, not_before_s)
        # Behind a head that found no place, an alike run would find none either.
        if group.line.head() == run.name:
            self.dirty[group] = None

    def _open_group(self, demand: Demand) -> Group:
        group = self.groups[demand] = Group(demand)
        self._by_team.setdefault(demand.team, {})[group] = None
        for accelerator in demand.accelerators:
            self._by_accelerator.setdefault(accelerator, {})[group] = None
        return group

    def _leave(self, name: str, group: Group) -> None:
        del self._group_of[name]
        group.line.remove(name)
        if not group.line:
            demand = group.demand
            del self.groups[demand]
            del self._by_team[demand.team][group]
            self.dirty.pop(group, None)
            for accelerator in demand.accelerators:
                del self._by_accelerator[accelerator][group]

    def _touch_freed(self, before: Run, after: Run) -> None:
        """Mark what a run's change may have made room for."""
        if not before.placements:
            return
        for leg in before.placements.values():
            if leg.is_live and _holds_less(leg, after.placements.get(leg.id)):
                self.touch_key(leg.site.key)

    def _touch_team(self, team: str) -> None:
        for group in self._by_team.get(team, ()):
            self.dirty[group] = None

    def _index_flavors(self) -> None:
        keys: dict[str, list[FlavorKey]] = {}
        for key, flavor in self.flavors.items():
            keys.setdefault(flavor.accelerator, []).append(key)
        self.layout += 1
        self.keys_of = {accelerator: tuple(sorted(some)) for accelerator, some in keys.items()}

    def _raise_dearest(self, flavor: FlavorFacts) -> None:
        price = flavor.price_per_gpu_hour
        if price is not None and price > self.dearest.get(flavor.accelerator, Decimal(0)):
            self.dearest[flavor.accelerator] = price


def is_in_line(run: Run) -> bool:
    """Return whether a run waits without a single leg: the runs that groups are made of."""
    return (
        run.state is RunState.QUEUED
        and run.ending is None
        and run.open_epoch is None
        and not any(leg.is_waiting for leg in run.placements.values())
    )


def _ability(facts: ClusterFacts) -> tuple[object, ...]:
    """Return what of a cluster, beside its flavors, decides whether it can take a gang."""
    return (
        facts.is_reachable,
        facts.is_store_reachable,
        facts.doubt,
        facts.stopped_queues,
        facts.blind,
    )


def _holds_less(before: Placement, after: Placement | None) -> bool:
    """Return whether a leg left the line or the cluster, and so made room."""
    if after is None or not after.is_live or (after.withdraw and not before.withdraw):
        return True
    return before.state in _IN_LINE and after.state not in _IN_LINE
