"""Who we are to a cluster: a kubeconfig's context, a pod's service account, or a cloud's tokens.

The rule: the official loaders are asked again every minute; they know what has expired, run a
plugin or read a token's file anew, and keep what still holds. A token never stands in an error.
Read ``Login.refresh`` first.
"""

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from kubernetes.aio.client import Configuration
from kubernetes.aio.config import incluster_config

from regions.kueue.errors import AccessError
from regions.kueue.kubeconfig import Loader, refused

_SENDABLE = re.compile(r"(?:Bearer|Basic) [!-~]+", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubeconfig:
    """A context of a kubeconfig file. An empty context is the file's current one."""

    path: str
    context: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InCluster:
    """The service account of the pod that this process runs in.

    ``folder`` is where the kubelet mounts it, ``environ`` says where the server is.
    """

    folder: str = "/var/run/secrets/kubernetes.io/serviceaccount"
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A server by its address, with tokens from elsewhere (a cloud's own credentials).

    ``token`` is asked every minute, and keeps the one it has until that nears its end.
    """

    host: str
    ca_pem: str
    token: Callable[[], Awaitable[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A server whose address has to be looked up, and looked up again once it knows us no more."""

    find: Callable[[], Awaitable[Endpoint]]


Credentials = Kubeconfig | InCluster | Endpoint | Found


class Login:
    """Credentials as a configuration of the official client, kept fresh."""

    def __init__(self, credentials: Credentials, within_s: float) -> None:
        self._credentials = credentials
        self._within_s = within_s
        self._loader: Loader | None = None
        self._found: Endpoint | None = None

    def forget(self) -> None:
        """Read everything from the beginning next time: the file itself may be another."""
        self._loader = None
        self._found = None

    async def refresh(self) -> Configuration:
        """Return a configuration with credentials that hold now. Raises AccessError."""
        configuration = Configuration()
        try:
            async with asyncio.timeout(self._within_s):
                await self._load(configuration)
        except TimeoutError as error:
            why = f"credentials did not come within {self._within_s:g} s"
            raise AccessError(why) from error
        except AccessError:
            raise
        except Exception as error:
            if isinstance(self._credentials, Kubeconfig):
                raise refused(error) from None
            # The loaders pass on whatever an answer made of them.
            raise AccessError(f"credentials cannot be read: {error}") from error
        _check(configuration)
        return configuration

    async def _load(self, configuration: Configuration) -> None:
        match self._credentials:
            case Kubeconfig(path=path, context=context):
                await self._from_file(configuration, path, context)
            case InCluster() as pod:
                _enter_from_within(configuration, pod)
            case Endpoint() as endpoint:
                await _enter(configuration, endpoint)
            case Found(find=find):
                self._found = self._found or await find()
                await _enter(configuration, self._found)

    async def _from_file(self, configuration: Configuration, path: str, context: str) -> None:
        if self._loader is None:
            self._loader = Loader(_there(path), context)
        await self._loader.enter(configuration)


def _enter_from_within(configuration: Configuration, pod: InCluster) -> None:
    token, authority = (os.path.join(pod.folder, name) for name in ("token", "ca.crt"))
    for name in (incluster_config.SERVICE_HOST_ENV_NAME, incluster_config.SERVICE_PORT_ENV_NAME):
        if not pod.environ.get(name):
            why = f"{name} is not set: this process runs in no pod of a cluster"
            raise AccessError(f"{why}; name a kubeconfig instead of in_cluster")
    for path in (token, authority):
        if not os.path.isfile(path):
            why = f"there is no {path}: this pod is shown no service account"
            raise AccessError(f"{why} (see its automountServiceAccountToken)")
    # The minute of the caller is the refresh: the token's file is read anew here.
    incluster_config.InClusterConfigLoader(
        token_filename=token,
        cert_filename=authority,
        try_refresh_token=False,
        environ=pod.environ,
    ).load_and_set(configuration)


async def _enter(configuration: Configuration, endpoint: Endpoint) -> None:
    configuration.host = endpoint.host.rstrip("/")
    configuration.ca_cert_data = endpoint.ca_pem or None
    configuration.api_key["BearerToken"] = f"Bearer {await endpoint.token()}"


def _check(configuration: Configuration) -> None:
    """Refuse a token that no header can carry; an end of line, which files have, is none of it."""
    token = configuration.api_key.get("BearerToken")
    if token is not None:
        configuration.api_key["BearerToken"] = token.strip()
        if not _SENDABLE.fullmatch(token.strip()):
            raise AccessError("credentials cannot be used: what is given as a token is none")


def identity(configuration: Configuration) -> tuple[object, ...]:
    """What a connection is made with: another one needs a new client, another token does not."""
    files = (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file)
    return (
        configuration.host,
        configuration.ca_cert_data,
        configuration.verify_ssl,
        configuration.tls_server_name,
        configuration.proxy,
        *((path, _changed_ns(path)) for path in files),
    )


def _there(path: str) -> str:
    """Return a file's path, its home filled in: the loader passes over one that is not there."""
    found = os.path.expanduser(path)
    if not os.path.isfile(found):
        raise AccessError(f"there is no kubeconfig {found}")
    return found


def _changed_ns(path: str | None) -> int:
    try:
        return os.stat(path).st_mtime_ns if path else 0
    except OSError:
        return 0
