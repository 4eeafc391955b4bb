"""The program: one region's machines, until SIGTERM or the end of who started it."""

from __future__ import annotations

import argparse
import asyncio
import signal
import ssl
from pathlib import Path

from aiohttp import web

from tests.cluster.rig.machines.addresses import Addresses
from tests.cluster.rig.machines.api import Client, Object, read_kubeconfig
from tests.cluster.rig.machines.cloud import Cloud
from tests.cluster.rig.machines.control import Control
from tests.cluster.rig.machines.flex import REQUESTS, Flex
from tests.cluster.rig.machines.kubelet import PODS, Kubelet
from tests.cluster.rig.machines.recipe import Surroundings


async def main(options: argparse.Namespace) -> None:
    """Serve the region until told to stop."""
    access = read_kubeconfig(options.kubeconfig)
    api = Client(access)
    shared = Surroundings(api, options.folder, Addresses(options.network), options.region)
    kubelet = Kubelet(shared)
    cloud = Cloud(api, options.region, kubelet)
    flex = Flex(api, cloud)
    control = Control(kubelet, cloud, flex, access.token)
    runner = await served(control, options)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)

    def see_pod(kind: str, seen: Object) -> None:
        kubelet.see(kind, seen)
        cloud.see_pod(kind, seen)

    work = [
        asyncio.ensure_future(api.follow(PODS, see_pod, stop=stop)),
        asyncio.ensure_future(api.follow("/api/v1/nodes", cloud.see_node, stop=stop)),
        asyncio.ensure_future(api.follow(REQUESTS, flex.see, stop=stop)),
        asyncio.ensure_future(cloud.run(stop)),
        asyncio.ensure_future(flex.run(stop)),
    ]
    stopping = asyncio.ensure_future(stop.wait())
    done, _ = await asyncio.wait({*work, stopping}, return_when=asyncio.FIRST_COMPLETED)
    for pod in list(kubelet.pods.values()):
        pod.vanish()
    for task in {*work, stopping} - done:
        task.cancel()
    await runner.cleanup()
    await api.close()
    for task in done:
        task.result()


async def served(control: Control, options: argparse.Namespace) -> web.AppRunner:
    """Open the port and return what closes it."""
    app = web.Application(middlewares=[control.guard])
    app.add_routes(control.routes())
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(options.cert, options.key)
    await web.TCPSite(runner, "127.0.0.1", options.port, ssl_context=tls).start()
    return runner


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="machines")
    parser.add_argument("--region", required=True)
    for name in ("kubeconfig", "folder", "cert", "key"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    for name in ("port", "network"):
        parser.add_argument(f"--{name}", type=int, required=True)
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(main(arguments()))
