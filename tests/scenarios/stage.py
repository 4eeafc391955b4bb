"""A stage on which scenario files play: production view, plan, policy and history, no cluster.

The rule: clusters do nothing by themselves; a scenario says what each reports, so that a trace
shows what deciding makes of it and of nothing else. ``tick`` repeats plan and judge until neither
has anything left to say, as the loops would. Read ``Stage.play``.
"""

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from itertools import count

from broker.history.commands import AcceptRun as Accept
from broker.history.commands import (
    EndPlacement,
    RecordCheckpoint,
    RecordCopy,
    RecordProgress,
    RecordRunning,
    RecordStart,
    ReportPlacement,
    RunCommand,
    SubmitRun,
)
from broker.history.context import Context
from broker.history.decide import decide
from broker.history.events import (
    Recorded,
)
from broker.history.evolve import evolve
from broker.history.invariants import violations
from broker.history.lineage import resumable
from broker.history.refusals import Refused
from broker.model.actor import Actor, ActorKind
from broker.model.billing import gate_gpus, live_cost, running_gpus
from broker.model.capacity import FlavorFacts, Signal, SignalKind
from broker.model.capacity_seen import ClusterWord
from broker.model.checkpoint import CheckpointRef
from broker.model.copying import CopyKind
from broker.model.intent import AfterMaxWait, CapacityType, Intent, Limits, Terms, Workload
from broker.model.policy import RegionPolicy, TeamCaps, TeamStanding
from broker.model.reasons import FailureClass, Reason
from broker.model.run import Arrival, CloseRule, Placement, RankEnd, Run
from broker.model.states import PlacementEnd, PlacementState
from broker.placement.content import prepared_words
from broker.placement.explain import explain
from broker.placement.plan import plan
from broker.placement.standing import RegionStanding
from broker.placement.view import View
from broker.placement.words import duration
from broker.policy.facts import EpochFacts
from broker.policy.judge import judge
from broker.policy.placing import commands
from tests.builders import flat_egress
from tests.scenarios.telling import said, short
from tests.unit.placement.pictures import at, gang, make_cluster, make_flavor

BROKER = Actor(kind=ActorKind.BROKER, name="stage")
ROUNDS = 20  # a tick that says something new for ever is a bug
Words = dict[str, str]


class Stage:
    """One broker's deciding half, and what the scenario has it see."""

    def __init__(self) -> None:
        self.view = View(resumable, flat_egress)
        self.now = at(0.0)
        self.facts: dict[str, EpochFacts] = {}
        self.flavors: dict[str, dict[str, FlavorFacts]] = {}
        self.caps = TeamCaps()
        self.runs: dict[str, Run] = {}
        self.trace: list[str] = []
        self._ids = (f"p{number:011d}" for number in count(1))
        self._nonces = (f"n{number:011d}" for number in count(1))
        self._positions = count(1)

    def play(self, line: str) -> str:
        """Carry out one line of a scenario and return what it made happen."""
        verb, *rest = line.split()
        plain = [word for word in rest if "=" not in word]
        words = dict(word.split("=", 1) for word in rest if "=" in word)
        self.trace = []
        acts: dict[str, Callable[[list[str], Words], None]] = {
            "flavor": self._flavor,
            "silent": self._silent,
            "policy": self._policy,
            "region": self._region,
            "caps": self._caps,
            "submit": self._submit,
            "tick": self._tick,
            "wait": self._wait,
            "report": self._report,
            "signal": self._signal,
            "rate": self._rate,
            "start": self._start,
            "progress": self._progress,
            "save": self._save,
            "ends": self._ends,
            "gone": self._gone,
            "explain": self._explain,
        }
        acts[verb](plain, words)
        return "\n".join(self.trace) or "ok"

    # ---- What clusters and ops say -------------------------------------------------------------

    def _flavor(self, plain: list[str], words: Words) -> None:
        cluster, flavor = plain
        known = self.flavors.setdefault(cluster, {})
        made = make_flavor(
            cluster,
            flavor=flavor,
            region=cluster,
            capacity_type=CapacityType(flavor.upper().replace("-", "_")),
            price=words.get("price", "2"),
            nominal=int(words.get("quota", "64")),
            reserved=int(words.get("reserved", "0")),
            nodes_free=int(words.get("free", "0")),
            ahead_gpus=int(words.get("ahead", "0")),
            max_run_s=float(words["max_run"]) if "max_run" in words else None,
        )
        known[flavor] = made
        self.view.apply_cluster(make_cluster(*known.values()))

    def _silent(self, plain: list[str], words: Words) -> None:
        facts = self.view.clusters[plain[0]]
        since_s = self.now.elapsed_s
        silent = replace(facts, is_reachable=False, silent_since_elapsed_s=since_s)
        self.view.apply_cluster(silent)

    def _policy(self, plain: list[str], words: Words) -> None:
        policy = RegionPolicy(
            hedge_width=int(words.get("width", "2")),
            weight=float(words.get("weight", "1")),
            replace_unreachable_after_s=(
                float(words["replace_after"]) if "replace_after" in words else None
            ),
        )
        self.view.apply_region(replace(self.view.region(plain[0]), policy=policy))

    def _region(self, plain: list[str], words: Words) -> None:
        region, act = plain
        standing = RegionStanding(
            region=region,
            policy=self.view.region(region).policy,
            is_cordoned=act == "cordon",
            is_draining=act == "drain",
        )
        self.view.apply_region(standing)

    def _caps(self, plain: list[str], words: Words) -> None:
        self.caps = TeamCaps(
            running_gpus=int(words["running"]) if "running" in words else None,
            gate_gpus=int(words["gate"]) if "gate" in words else None,
        )
        self.view.apply_team("nlp", self._standing())

    # ---- Runs ----------------------------------------------------------------------------------

    def _submit(self, plain: list[str], words: Words) -> None:
        terms = Terms(
            capacity_types=tuple(
                CapacityType(word.upper().replace("-", "_"))
                for word in words.get("types", "spot,on-demand,flex,reserved").split(",")
            ),
            regions=tuple(words["regions"].split(",")) if "regions" in words else (),
            max_wait_s=float(words["max_wait"]) if "max_wait" in words else None,
            max_requeue_wait_s=float(words["requeue_wait"]) if "requeue_wait" in words else None,
            after_max_wait=AfterMaxWait(words.get("after", "KEEP_WAITING")),
            expected_duration_s=float(words["takes"]) if "takes" in words else None,
            deadline_wall_s=(
                self.now.wall_s + float(words["deadline"]) if "deadline" in words else None
            ),
            budget=Decimal(words["budget"]) if "budget" in words else None,
            priority=int(words.get("priority", "0")),
            limits=Limits(user_restarts=int(words.get("restarts", "3"))),
        )
        workload = Workload(command=("train",), hardware=gang(int(words.get("nodes", "1"))))
        for name in plain:
            intent = Intent(team="nlp", owner="ada", workload=workload, terms=terms)
            submit = SubmitRun(
                name=f"teams/nlp/runs/{name}",
                uid=f"uid-{name}",
                intent=intent,
                request_id=name,
                body_digest="b" * 64,
            )
            self._tell(submit.name, submit)
            self._tell(submit.name, Accept())

    def _report(self, plain: list[str], words: Words) -> None:
        run, cluster, state, reason = plain
        leg = self._leg(run, cluster)
        nodes = words.get("nodes", "/").split("/")
        arrival = Arrival(
            ahead_gpus=int(words["ahead"]) if "ahead" in words else None,
            nodes_here=int(nodes[0]) if nodes[0] else None,
            nodes_wanted=int(nodes[1]) if nodes[1] else None,
        )
        message = words.get("says", "").replace("_", " ")
        report = ReportPlacement(
            placement=leg.id,
            state=PlacementState(state),
            reason=Reason(reason),
            message=message or f"{reason.lower().replace('_', ' ')} in {cluster}",
            arrival=arrival,
            cluster_uid=f"uid-{leg.id}",
            word=_for_the_user(words["word"]) if "word" in words else None,
        )
        self._tell(self._name(run), report)

    def _start(self, plain: list[str], words: Words) -> None:
        run = self.runs[self._name(plain[0])]
        epoch = run.open_epoch
        assert epoch is not None, "a start needs a grant"
        ranks = run.placements[epoch.placement].site.nodes
        nonces = tuple(f"{epoch.id.nonce}-{rank}" for rank in range(ranks))
        self._tell(run.name, RecordStart(epoch=epoch.id, nonces=nonces))
        if words.get("running", "yes") == "yes":
            self._tell(run.name, RecordRunning(epoch=epoch.id))

    def _progress(self, plain: list[str], words: Words) -> None:
        run = self.runs[self._name(plain[0])]
        assert run.open_epoch is not None, "progress needs a start"
        step = RecordProgress(epoch=run.open_epoch.id, step=int(words["step"]), loss=None)
        self._tell(run.name, step)

    def _save(self, plain: list[str], words: Words) -> None:
        run = self.runs[self._name(plain[0])]
        epoch = run.open_epoch
        assert epoch is not None, "a save needs a start"
        step = int(words["step"])
        ref = CheckpointRef(epoch=epoch.id, step=step, digest=f"{step:064d}")
        size = int(words.get("bytes", "1000"))
        self._tell(
            run.name,
            RecordCheckpoint(
                ref=ref, size_bytes=size, region=epoch.region, written_wall_s=self.now.wall_s
            ),
        )
        for region in words.get("copies", "").split(","):
            if region:
                self._tell(run.name, RecordCopy(ref=ref, region=region))

    def _ends(self, plain: list[str], words: Words) -> None:
        """Say how the gang of the open epoch ended: ``codes=1,-`` by rank, ``-`` seen gone."""
        run = self.runs[self._name(plain[0])]
        epoch = run.open_epoch
        assert epoch is not None, "an end needs an epoch"
        codes = words["codes"].split(",") if "codes" in words else []
        ends = tuple(
            RankEnd(rank=rank, exit_code=None if code == "-" else int(code))
            for rank, code in enumerate(codes)
            if code != "."
        )
        known = self.facts.get(run.name)
        self.facts[run.name] = EpochFacts(
            epoch=epoch.id,
            ends=ends,
            first_end_s=known.first_end_s if known and known.ends else self.now.elapsed_s,
            closed=CloseRule(words["closed"]) if "closed" in words else None,
            cause=Reason(words["cause"]) if "cause" in words else None,
            message=words.get("says", "").replace("_", " "),
            notice_until_s=(
                self.now.elapsed_s + float(words["notice"]) if "notice" in words else None
            ),
        )

    def _gone(self, plain: list[str], words: Words) -> None:
        run, cluster = plain
        leg = self._leg(run, cluster)
        order = leg.withdraw
        end = EndPlacement(
            placement=leg.id,
            end=PlacementEnd.WITHDRAWN,
            reason=Reason.UNKNOWN if order is None else order.reason,
            message="seen gone" if order is None else order.message,
        )
        self._tell(self._name(run), end)

    def _signal(self, plain: list[str], words: Words) -> None:
        cluster, flavor, kind = plain
        self.view.apply_signal(
            Signal(
                key=self.flavors[cluster][flavor].key,
                kind=SignalKind(kind),
                elapsed_s=self.now.elapsed_s,
                source="scenario",
                gpus=int(words.get("gpus", "0")),
            )
        )

    def _rate(self, plain: list[str], words: Words) -> None:
        source, destination, bytes_per_s = plain
        kind = CopyKind.CHECKPOINT
        self.view.rates.tell(kind, source, destination, float(bytes_per_s))

    def _explain(self, plain: list[str], words: Words) -> None:
        told = explain(self.view, self.runs[self._name(plain[0])], self.now)
        for offer in told.offers:
            self.trace.append(
                f"offer {offer.region}/{offer.key.flavor} {offer.forecast.certainty} "
                f"p50 {duration(offer.forecast.p50_s or 0.0)} chance {offer.forecast.chance:.2f} "
                f"at ${offer.price_per_hour}/h"
            )
            if prepared := prepared_words(offer.preparation):
                self.trace.append(f"  {prepared}")
        for block in told.blocked:
            self.trace.append(f"blocked {block.offer.region}: {block.reason}: {block.message}")
        for no in told.refusals:
            self.trace.append(f"refused {no.region}/{no.key.flavor} {no.reason}: {no.message}")
        self.trace.append(f"waits {told.wait.reason}: {told.wait.message}")

    # ---- Time ----------------------------------------------------------------------------------

    def _wait(self, plain: list[str], words: Words) -> None:
        self.now = at(self.now.elapsed_s + float(plain[0]))
        self.play_tick()

    def _tick(self, plain: list[str], words: Words) -> None:
        self.play_tick()

    def play_tick(self) -> None:
        """Plan and judge until both have nothing left to say."""
        for _ in range(ROUNDS):
            before = len(self.trace)
            made = plan(self.view, self.now, self._ids)
            self.view.settle(made)
            for name, command in commands(made):
                self._tell(name, command)
            for name in list(self.runs):
                facts = self.facts.get(name)
                for command in judge(self.view, self.runs[name], facts, self.now, self._nonces):
                    self._tell(name, command)
            if len(self.trace) == before:
                return
        raise AssertionError("deciding never came to rest:\n" + "\n".join(self.trace))

    # ---- The log -------------------------------------------------------------------------------

    def _tell(self, name: str, command: RunCommand) -> None:
        run = self.runs.get(name)
        context = Context(now=self.now, team=self._standing(), unseen_regions=frozenset())
        try:
            events = decide(run, command, context)
        except Refused as refused:
            self.trace.append(f"{short(name)}: REFUSED {type(command).__name__}: {refused}")
            self.view.refused(name, self.now.elapsed_s)
            return
        for event in events:
            position = next(self._positions)
            recorded = Recorded(
                position=position,
                stream=name,
                stream_version=1 if run is None else run.stream_version + 1,
                at=self.now,
                actor=BROKER,
                event=event,
            )
            run = evolve(run, recorded)
            words = said(event, run)
            if words:
                self.trace.append(f"{short(name)}: {words}")
        if events and run is not None:
            assert violations(run) == (), violations(run)
            self.runs[name] = run
            self.view.apply_run(run)
            self.view.apply_team("nlp", self._standing())

    def _standing(self) -> TeamStanding:
        return TeamStanding(
            caps=self.caps,
            running_gpus=sum(running_gpus(run) for run in self.runs.values()),
            gate_gpus=sum(gate_gpus(run) for run in self.runs.values()),
            gate_gpu_minutes_today=0.0,
            spent=sum((live_cost(run, self.now) for run in self.runs.values()), Decimal(0)),
        )

    def _name(self, run: str) -> str:
        return f"teams/nlp/runs/{run}"

    def _leg(self, run: str, cluster: str) -> Placement:
        legs = self.runs[self._name(run)].placements.values()
        return [leg for leg in legs if leg.site.region == cluster][-1]


def _for_the_user(word: str) -> ClusterWord:
    """Return a word for what only a run's user can mend."""
    return ClusterWord(
        word=word,
        failure=FailureClass.USER,
        deed="",
        advice="Have it created.",
        look_at="",
        raw="",
        is_unknown=False,
    )
