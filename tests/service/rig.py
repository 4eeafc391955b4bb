"""A real gRPC server over the real log and the real placement, for the tests of the edge.

The rule it keeps: only what the loops do stands in memory here (clusters as seen, logs, files,
faults); the ledger, its decisions and the explanations are the production ones. Read ``serving``
first.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf import text_format
from google.rpc import error_details_pb2, status_pb2

from broker.history.commands import Command
from broker.history.lineage import resumable
from broker.history.refusals import Code, Refused
from broker.model.capacity import ClusterFacts, Offer
from broker.model.capacity_seen import CapacitySeen, ClusterWord
from broker.model.check import ClusterCheck
from broker.model.checkpoint import CheckpointRef
from broker.model.faults import Fault
from broker.model.image import ImageOnItsWay, RegionRegistry
from broker.model.intent import Intent
from broker.model.manifest import Manifest, SentObject
from broker.model.moment import Moment
from broker.model.reasons import Reason
from broker.model.run import Placement, Progress, Run
from broker.model.sightings import CheckpointFile, Orphan, Replica
from broker.placement.explain import Explanation, explain
from broker.placement.nearest import NeverFits, never_fits
from broker.placement.view import View
from broker.runtime.clock import SystemClock
from broker.runtime.failures import Failures
from broker.service.bundles import BundleFolder
from broker.service.door import Door
from broker.service.ports import Ports
from broker.service.server import Server, build_server
from broker.store.ledger import Ledger, open_ledger
from broker.store.recovery import read_mark
from broker.v1 import (
    broker_service_pb2_grpc,
    intent_pb2,
    local_service_pb2_grpc,
    region_service_pb2_grpc,
    run_service_pb2,
    run_service_pb2_grpc,
    team_service_pb2_grpc,
)
from tests.builders import BROKER, flat_egress
from tests.fakes.readings import HandReadings
from tests.service.documented import Witness
from tests.unit.placement.pictures import make_cluster, make_flavor

REGIONS = ("alpha", "beta", "gamma")
VISION = "teams/vision"
DIGITS = "teams/vision/runs/digits"


@dataclass
class Loops:
    """What the loops would know and do, as far as a test says so."""

    facts: dict[str, ClusterFacts]
    strangers: list[Orphan] = field(default_factory=list)
    reports: dict[str, Progress] = field(default_factory=dict)
    written: dict[tuple[str, int], bytes] = field(default_factory=dict)
    copies: tuple[Replica, ...] = ()
    files: dict[str, bytes] = field(default_factory=dict)
    folder: str | None = None
    capacities: dict[str, CapacitySeen] = field(default_factory=dict)
    registries: dict[str, RegionRegistry] = field(default_factory=dict)
    on_their_way: dict[str, tuple[ImageOnItsWay, ...]] = field(default_factory=dict)
    words: dict[str, ClusterWord] = field(default_factory=dict)
    checks: tuple[ClusterCheck, ...] = ()
    faults: list[tuple[str, Fault]] = field(default_factory=list)

    def regions(self) -> tuple[str, ...]:
        return tuple(sorted(self.facts))

    def clusters(self, region: str) -> tuple[ClusterFacts, ...]:
        return (self.facts[region],)

    def orphans(self, region: str) -> tuple[Orphan, ...]:
        return tuple(one for one in self.strangers if one.cluster == region)

    def capacity(self, cluster: str) -> CapacitySeen:
        return self.capacities.get(cluster, CapacitySeen())

    def store(self, region: str) -> str:
        return f"gs://of-{region}/broker"

    def registry(self, region: str) -> RegionRegistry | None:
        return self.registries.get(region)

    def images_on_their_way(self, region: str) -> tuple[ImageOnItsWay, ...]:
        return self.on_their_way.get(region, ())

    def word(self, placement: Placement) -> ClusterWord | None:
        return self.words.get(placement.id)

    def explain(self, run: Run, now: Moment) -> Explanation:
        view = View(resumable, flat_egress)
        for facts in self.facts.values():
            view.apply_cluster(facts)
        view.apply_run(run)
        return explain(view, run, now)

    def never_fits(self, intent: Intent) -> NeverFits | None:
        view = View(resumable, flat_egress)
        for facts in self.facts.values():
            view.apply_cluster(facts)
        return never_fits(view, intent, intent.terms)

    def progress(self, run: str) -> Progress | None:
        return self.reports.get(run)

    async def tail(
        self, run: Run, placement: str, rank: int, *, offset: int, follow: bool
    ) -> AsyncGenerator[tuple[int, bytes], None]:
        if rank >= 2:
            raise Refused(Reason.NOT_FOUND, f"no rank {rank}", code=Code.NOT_FOUND)
        text = self.written.get((placement, rank), b"")
        start = offset if offset >= 0 else max(0, len(text) + offset)
        yield len(text), text[start:]

    def replicas(self, run: Run) -> tuple[Replica, ...]:
        return self.copies

    async def local_path(self, run: Run, ref: CheckpointRef, region: str) -> str | None:
        return self.folder

    async def fetch(
        self, run: Run, ref: CheckpointRef, region: str
    ) -> AsyncGenerator[CheckpointFile | bytes, None]:
        for path, content in self.files.items():
            yield CheckpointFile(path=path, size_bytes=len(content), sha256="0" * 64)
            yield content

    def manifest(self, run: Run, placement: Placement) -> Manifest:
        return self._sent(f"gang-{placement.id}", run)

    def offered(self, run: Run, offer: Offer) -> Manifest:
        return self._sent(f"gang-in-{offer.region}", run)

    def _sent(self, name: str, run: Run) -> Manifest:
        text = json.dumps({"kind": "JobSet", "run": run.name})
        sent = SentObject(kind="JobSet", name=name, json=text)
        return Manifest(objects=(sent,), notes=("it opens nothing",), refusal="")

    async def check(self, region: str) -> tuple[ClusterCheck, ...]:
        return tuple(one for one in self.checks if one.cluster == region)

    async def inject(self, region: str, fault: Fault) -> str:
        self.faults.append((region, fault))
        return f"{type(fault).__name__} in {region}"


@dataclass
class Rig:
    """One server, its stubs, and the hands of a test behind it."""

    server: Server
    log: Ledger
    loops: Loops
    readings: HandReadings
    bundles: Path
    failures: Failures
    channel: grpc.aio.Channel

    def __post_init__(self) -> None:
        self.runs = run_service_pb2_grpc.RunServiceStub(self.channel)
        self.regions = region_service_pb2_grpc.RegionServiceStub(self.channel)
        self.teams = team_service_pb2_grpc.TeamServiceStub(self.channel)
        self.local = local_service_pb2_grpc.LocalServiceStub(self.channel)
        self.broker = broker_service_pb2_grpc.BrokerServiceStub(self.channel)

    async def submit(self, run_id: str = "digits", **changes: Any) -> str:
        """Submit a run by the wire; return its name."""
        request = make_request(run_id=run_id, **changes)
        return (await self.runs.SubmitRun(request, timeout=10)).run.name

    async def tell(self, *commands: Command, stream: str = DIGITS) -> None:
        """Say to the log what the loops would."""
        for command in commands:
            await self.log.handle(stream, command, BROKER)

    def silence(self, region: str) -> None:
        """Let a region's cluster answer no more."""
        self.loops.facts[region] = facts_of(region, is_reachable=False)

    def run(self, name: str = DIGITS) -> Run:
        """Return a run as the log has it."""
        run = self.log.run(name)
        assert run is not None
        return run


@asynccontextmanager
async def serving(
    folder: Path, *, is_threaded: bool = False, door_of: Callable[[SystemClock], Door] | None = None
) -> AsyncIterator[Rig]:
    """Serve on a Unix socket in ``folder``, and behind a door, for the length of a block."""
    readings, path = HandReadings(), folder / "broker.db"
    clock = SystemClock(read_mark(path), readings)
    log = open_ledger(path, clock, regions=REGIONS, is_threaded=is_threaded)
    loops, numbers = (
        Loops(facts={region: facts_of(region) for region in REGIONS}),
        itertools.count(),
    )
    bundles = BundleFolder(folder / "bundles", size_max=4_000_000)
    bundles.prepare()
    failures = Failures(clock)
    ports = Ports(
        log=log,
        world=loops,
        explainer=loops,
        live=loops,
        logs=loops,
        checkpoints=loops,
        manifests=loops,
        checks=loops,
        faults=loops,
        bundles=bundles,
        workings=failures,
        clock=clock,
        draw=lambda length: f"u{next(numbers):0{length - 1}d}",
    )
    server = await build_server(ports, None if door_of is None else door_of(clock))
    address = await server.start(f"unix:{folder}/s")
    try:
        witness = Witness()
        async with grpc.aio.insecure_channel(address, interceptors=witness.interceptors) as channel:
            yield Rig(server, log, loops, readings, folder / "bundles", failures, channel)
            undocumented = await witness.undocumented()
            assert undocumented == [], undocumented
    finally:
        await server.stop(grace_s=0.0)
        await log.close()


def facts_of(region: str, *, is_reachable: bool = True) -> ClusterFacts:
    """Return a region's one cluster, with free spot machines."""
    flavor = make_flavor(
        region, region=region, accelerator="h100", flavor="spot", nodes_free=4, nominal=64
    )
    flavor = replace(flavor, accelerators_per_node=1)
    return replace(make_cluster(flavor, is_reachable=is_reachable), cluster=region)


def make_request(**changes: Any) -> run_service_pb2.SubmitRunRequest:
    """Return a request that is accepted; ``terms`` and ``workload`` are merged into it."""
    terms, workload = changes.pop("terms", None), changes.pop("workload", None)
    request = run_service_pb2.SubmitRunRequest(parent=VISION, **changes)
    request.intent.MergeFrom(
        intent_pb2.Intent(
            workload=intent_pb2.Workload(
                command=["python", "train.py"],
                hardware=[
                    intent_pb2.HardwareOption(accelerator="h100", accelerators_per_node=1, nodes=2)
                ],
            ),
            terms=intent_pb2.Terms(
                capacity_types=[intent_pb2.CapacityType.CAPACITY_TYPE_SPOT],
            ),
        )
    )
    if terms is not None:
        request.intent.terms.MergeFrom(terms)
    if workload is not None:
        request.intent.workload.MergeFrom(workload)
    return request


@dataclass(frozen=True)
class Refusal:
    """What a client learns of an error."""

    code: grpc.StatusCode
    reason: str
    fields: tuple[str, ...] = ()


def terms_of(text: str) -> intent_pb2.Terms:
    """Read terms in protobuf's text form."""
    return text_format.Parse(text, intent_pb2.Terms())


async def refused(call: Awaitable[object]) -> Refusal:
    """Wait for a call that is to be refused, and return how it was."""
    with pytest.raises(grpc.RpcError) as caught:
        await asyncio.wait_for(call, 10)
    return refusal_of(caught.value)


def refusal_of(error: grpc.RpcError) -> Refusal:
    """Read an error as a client would, and hold it to its form."""
    assert isinstance(error, grpc.aio.AioRpcError)
    details = dict(error.trailing_metadata() or ()).get("grpc-status-details-bin")
    assert isinstance(details, bytes), f"{error.code()} without details: {error.details()}"
    status = status_pb2.Status.FromString(details)
    assert (status.code, status.message) == (error.code().value[0], error.details())
    info, bad = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
    for packed in status.details:
        packed.Unpack(info) or packed.Unpack(bad)
    assert info.domain == "broker"
    assert info.reason in set(Reason)
    fields = tuple(v.field for v in bad.field_violations)
    assert info.metadata.get("field", "") == (fields[0] if fields else "")
    return Refusal(error.code(), info.reason, fields)
