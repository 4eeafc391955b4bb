"""A broker that runs in its cluster: its pod's service account, against a server with TLS."""

import contextlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from regions.kueue.access import Api, Deadlines
from regions.kueue.credentials import InCluster
from regions.kueue.errors import AccessError, ClusterError
from tests.fakes.certificates import write_pair, write_roots
from tests.unit.regions.kueue.clocks import StepClock

HOST, PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"


class Cluster:
    """A cluster's server, and what a pod in it is shown of it."""

    def __init__(self, folder: Path, port: int) -> None:
        self.clock = StepClock()
        self.tokens: list[str] = []
        self.folder = folder
        self.pod = InCluster(folder=str(folder), environ={HOST: "localhost", PORT: str(port)})
        self.show("one")
        self.trust("one")

    def show(self, token: str) -> None:
        (self.folder / "token").write_text(token)

    def trust(self, name: str) -> None:
        write_roots(self.folder, name).rename(self.folder / "ca.crt")

    @contextlib.asynccontextmanager
    async def api(self, **changes: object) -> AsyncIterator[Api]:
        pod = replace(self.pod, **changes)  # type: ignore[arg-type]
        api = Api(pod, self.clock, Deadlines(call_s=5.0))
        try:
            yield api
        finally:
            await api.close()


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async def answer(request: web.Request) -> web.Response:
        found.tokens.append(request.headers.get("Authorization", ""))
        return web.Response(body=b"{}")

    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", answer)
    server = TestServer(app, scheme="https")
    await server.start_server(ssl=serving_tls(tmp_path))
    assert server.port is not None
    mount = tmp_path / "mount"
    mount.mkdir()
    found = Cluster(mount, server.port)
    yield found
    await server.close()


def serving_tls(folder: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate, key = write_pair(folder)
    context.load_cert_chain(certificate, key)
    return context


async def test_the_token_is_read_again_each_minute(cluster: Cluster) -> None:
    async with cluster.api() as api:
        await api.ask("GET", "/version")
        cluster.show("two\n")
        await api.ask("GET", "/version")
        cluster.clock.now_s += 61
        await api.ask("GET", "/version")
    assert [each.split() for each in cluster.tokens] == [
        ["bearer", "one"],
        ["bearer", "one"],
        ["bearer", "two"],
    ]


async def test_a_server_is_believed_by_the_ca_that_the_pod_is_shown(cluster: Cluster) -> None:
    cluster.trust("another")
    async with cluster.api() as api:
        with pytest.raises(ClusterError, match="certificate"):
            await api.ask("GET", "/version")
        cluster.trust("one")
        cluster.clock.now_s += 61
        await api.ask("GET", "/version")
    assert len(cluster.tokens) == 1


@pytest.mark.parametrize("name", ["token", "ca.crt"])
async def test_a_pod_without_a_service_account_is_told_what_is_missing(
    cluster: Cluster, name: str
) -> None:
    path = cluster.folder / name
    path.unlink()
    async with cluster.api() as api:
        with pytest.raises(AccessError, match="automountServiceAccountToken") as caught:
            await api.ask("GET", "/version")
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("environ", [{}, {HOST: "localhost"}, {HOST: "", PORT: "443"}])
async def test_a_process_outside_of_a_pod_is_told_so(
    cluster: Cluster, environ: dict[str, str]
) -> None:
    async with cluster.api(environ=environ) as api:
        with pytest.raises(AccessError, match="runs in no pod of a cluster; name a kubeconfig"):
            await api.ask("GET", "/version")


@pytest.mark.parametrize("content", ["", "s3cret s3cret", "s3cret\n\x00"])
async def test_a_token_that_is_none_is_refused_and_not_shown(
    cluster: Cluster, content: str
) -> None:
    cluster.show(content)
    async with cluster.api() as api:
        with pytest.raises(AccessError) as caught:
            await api.ask("GET", "/version")
    assert "s3cret" not in str(caught.value)
    assert cluster.tokens == []
