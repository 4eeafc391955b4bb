"""The embedded default: three regions on this machine, each a process of its own.

The rule: a cluster that answers is left as it is; one that does not is started in a session of its
own, so that neither brokerd's death nor a Ctrl-C touches a gang. Read ``ensure`` first.

The regions' names and spot prices are Google's of October 2025 for an H100 of an a3-highgpu-8g
(on demand: us-central1's; flex: between the two); start-up takes seconds here, so that a newcomer
need not wait.
"""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from broker.config import Cluster
from regions.launcher.store import DirectoryStore
from regions.local import wire

ANSWER_S = 10.0  # a fresh interpreter on a busy machine is there in one
ASK_AGAIN_S = 0.05
STOP_S = 40.0  # more than the cluster's own grace for its gangs
_SPOT = {"us-east4": "1.86", "europe-west1": "2.04", "us-central1": "2.37"}
_ON_DEMAND = "11.06"
_NODES = 16  # one virtual GPU, and so one process, each


class EmbeddedError(Exception):
    """An embedded cluster could not be started or stopped; the sentence says where to look."""


def default_clusters(data: Path) -> tuple[Cluster, ...]:
    """Return the three clusters of a data directory."""
    home = data / "embedded"
    return tuple(
        Cluster(
            name=f"local-{region}",
            region=region,
            config=str(home / region / "cluster.json"),
            directory=str(home / region / "state"),
            socket=str(home / region / "sock"),
            store=str(home / region / "store"),
        )
        for region in _SPOT
    )


def prepare(clusters: Sequence[Cluster]) -> None:
    """Write the default configurations and make the stores where they are missing."""
    for cluster in clusters:
        path = Path(cluster.config)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            path.write_text(json.dumps(_world(cluster), indent=2) + "\n")
        DirectoryStore.create(cluster.store)


async def ensure(
    clusters: Sequence[Cluster],
    sleep: Callable[[float], Awaitable[None]],
    *,
    lifeline: int | None = None,
) -> None:
    """Start each cluster that does not answer, and wait until all do.

    ``lifeline`` is the reading end of a pipe: the clusters end, gangs and all, once it closes.
    Raises EmbeddedError.
    """
    for cluster in clusters:
        if not await _answers(cluster):
            _start(cluster, lifeline)
    for cluster in clusters:
        await _wait_for(cluster, sleep)


async def stop(clusters: Sequence[Cluster]) -> None:
    """End each cluster with all of its gangs, and remove what it has on disk."""
    for cluster in clusters:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, wire.BadFrameError):
            await _ask(cluster, wire.Terminate(), STOP_S)
        sweep = [sys.executable, "-m", "regions.local", "--dir", cluster.directory, "--sweep"]
        process = await asyncio.create_subprocess_exec(*sweep)
        if await process.wait() != 0:
            raise EmbeddedError(f"processes of {cluster.name} would not end")


def _start(cluster: Cluster, lifeline: int | None) -> None:
    command = [sys.executable, "-m", "regions.local"]
    command += ["--dir", cluster.directory, "--socket", cluster.socket, "--config", cluster.config]
    if lifeline is not None:
        command += ["--lifeline", str(lifeline)]
    with _log_of(cluster).open("ab") as log:
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            pass_fds=() if lifeline is None else (lifeline,),
            cwd="/",
            env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        )


async def _wait_for(cluster: Cluster, sleep: Callable[[float], Awaitable[None]]) -> None:
    loop = asyncio.get_running_loop()
    give_up_s = loop.time() + ANSWER_S
    while not await _answers(cluster):
        if loop.time() > give_up_s:
            raise EmbeddedError(f"{cluster.name} does not answer; see {_log_of(cluster)}")
        await sleep(ASK_AGAIN_S)


async def _answers(cluster: Cluster) -> bool:
    question = wire.Observe(instance="", generation=0, signal_serial=0, wait_s=0.0)
    try:
        await _ask(cluster, question, ANSWER_S)
    except (OSError, TimeoutError, asyncio.IncompleteReadError, wire.BadFrameError):
        return False
    return True


async def _ask(cluster: Cluster, request: wire.Request, limit_s: float) -> None:
    async with asyncio.timeout(limit_s):
        reader, writer = await asyncio.open_unix_connection(cluster.socket)
        try:
            await wire.write(writer, request)
            await wire.read_reply(reader)
        finally:
            writer.close()


def _log_of(cluster: Cluster) -> Path:
    return Path(cluster.config).with_name("cluster.log")


def _world(cluster: Cluster) -> dict[str, object]:
    spot, on_demand = _SPOT[cluster.region], _ON_DEMAND
    flavors = [
        _flavor(cluster, "h100-spot", "SPOT", spot, startup_s=2.0, preemption_notice_s=30.0),
        _flavor(cluster, "h100-on-demand", "ON_DEMAND", on_demand, startup_s=4.0),
        _flavor(cluster, "h100-flex", "FLEX", "4.50", flex_wait_s=20.0, max_run_s=604_800.0),
    ]
    quotas = [{"flavor": flavor["name"], "nominal": _NODES} for flavor in flavors]
    return {
        "cluster": cluster.name,
        "region": cluster.region,
        "store": cluster.store,
        "flavors": flavors,
        "queues": [{"name": "research", "quotas": quotas}],
    }


def _flavor(
    cluster: Cluster, name: str, capacity_type: str, price: str, **more: float
) -> dict[str, object]:
    return {
        "name": name,
        "accelerator": "H100",
        "capacity_type": capacity_type,
        "zones": [f"{cluster.region}-a"],
        "price_per_gpu_hour": price,
        "max_nodes": _NODES,
        "spread_s": 0.1,
        **more,
    }
