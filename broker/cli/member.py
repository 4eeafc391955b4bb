"""A cluster that is to be a member, as who looks after it reaches it: the CLI's one way to one.

The rule: this module alone of the CLI knows ``regions``, for it does what no broker could: give the
broker its rights. What only prints needs no package of the daemon's. Read ``Cluster`` first.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from broker.sdk.errors import BrokerError, NotNow, TooLate
from regions.kueue import printed
from regions.kueue.bootstrap import ACCOUNT, Piece, Settings, pieces
from regions.kueue.own_queue import OwnQueue, SettingsError

if TYPE_CHECKING:
    from regions.kueue.access import Api
    from regions.kueue.errors import ClusterError
    from regions.kueue.setting_up import Step
    from regions.kueue.taking_back import Found

DEFAULT_QUEUE = "training"
DEFAULT_VERSION = "v1beta2"
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One object, and what becomes of it."""

    what: str
    state: str
    said: tuple[str, ...]
    is_to_do: bool = False
    is_refused: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return {"object": self.what, "state": self.state, "said": list(self.said)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What was asked for. ``is_version_said``: the cluster's own version of Kueue is not taken."""

    settings: Settings
    is_version_said: bool

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "Wanted":
        """Return what the options ask for. Raises click.UsageError."""
        own = _own_queue(given)
        settings = Settings(
            namespace=given["namespace"],
            queues=_queues(given["queues"], own, is_remove=given["is_remove"]),
            own_queue=own,
            account_namespace=given["account_namespace"],
            users=tuple(given["users"]),
            pod_security=given["pod_security"],
            sees_pods_of_others=not given["no_pods_of_others"],
            waiting=given["waiting"],
            running=given["running"],
            kueue=given["kueue_version"] or DEFAULT_VERSION,
        )
        wanted = cls(settings=settings, is_version_said=bool(given["kueue_version"]))
        try:
            wanted.pieces()
        except SettingsError as error:
            raise click.UsageError(str(error)) from error
        return wanted

    def pieces(self) -> tuple[Piece, ...]:
        """Return the objects."""
        return pieces(self.settings)

    def text(self) -> str:
        """Return the manifests with what each grants."""
        return printed.text(self.pieces(), self.settings)

    def files(self) -> dict[str, str]:
        """Return the manifests, file by file."""
        return printed.files(self.pieces())

    def objects(self) -> list[dict[str, Any]]:
        """Return the objects for programs."""
        return [
            {"file": each.file, "manifest": each.manifest, "grants": list(each.grants)}
            for each in self.pieces()
        ]

    def served_as(self, version: str) -> "Wanted":
        """Return the same in a version of Kueue that is served."""
        if self.is_version_said or not version:
            return self
        return replace(self, settings=replace(self.settings, kueue=version))

    def next_step(self) -> str:
        """Say what is to be done when all is applied."""
        lines = "\n".join(f"  {line}" for line in printed.entry(self.settings))
        who = ", ".join(self.settings.users)
        account = f"account {self.settings.account_namespace}/{ACCOUNT}"
        return (
            f"applied. Give brokerd credentials for it ({who or account}), name it in brokerd's"
            f" configuration, start brokerd again, and see `broker doctor`:\n{lines}"
        )


def _queues(given: Iterable[str], own: OwnQueue | None, *, is_remove: bool) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in given:
        name, parted, above = text.partition("=")
        if not parted and own is not None:
            above = own.name
        if not name or not above:
            raise click.BadParameter(
                f"{text[:80]!r} is not NAME=CLUSTERQUEUE", param_hint="--queue"
            )
        found[name] = above
    if not found and (own is not None or is_remove):
        return {DEFAULT_QUEUE: own.name if own is not None else DEFAULT_QUEUE}
    if not found:
        raise click.UsageError(
            "--queue NAME=CLUSTERQUEUE says which ClusterQueue's quota the broker may use;"
            " --own-cluster-queue makes one"
        )
    return found


def _own_queue(given: Mapping[str, Any]) -> OwnQueue | None:
    if not given["own_cluster_queue"]:
        for name in ("cohort", "flavors", "checks"):
            if given[name]:
                raise click.UsageError(
                    f"--{name.removesuffix('s')} is of --own-cluster-queue, which is not there"
                )
        return None
    flavors: dict[str, dict[str, str]] = {}
    for text in given["flavors"]:
        name, _, quotas = text.partition(":")
        pairs = [each.partition("=") for each in quotas.split(",")]
        if not name or not all(resource and quota for resource, _, quota in pairs):
            hint = f"{text[:80]!r} is not NAME:RESOURCE=N,RESOURCE=N"
            raise click.BadParameter(hint, param_hint="--flavor")
        flavors[name] = {resource: quota for resource, _, quota in pairs}
    checks = {}
    for text in given["checks"]:
        name, _, names = text.partition(":")
        checks[name] = tuple(each for each in names.split(",") if each)
    return OwnQueue(
        name=given["own_cluster_queue"],
        cohort=given["cohort"],
        flavors=flavors,
        checks=checks,
    )


@dataclass(kw_only=True)
class Cluster:
    """A cluster, by a person's own kubeconfig. Each call connects anew."""

    kubeconfig: str
    context: str
    _steps: "tuple[Step, ...]" = ()
    _found: "tuple[Found, ...]" = field(default=(), repr=False)

    def compare(self, wanted: Wanted, *, force: bool) -> list[Said]:
        """Say what applying would change."""

        async def ask(api: "Api") -> "tuple[Step, ...]":
            from regions.kueue.discovery import discover
            from regions.kueue.objects.kinds import LOCAL_QUEUES
            from regions.kueue.setting_up import compare

            version = (await discover(api)).version(LOCAL_QUEUES)
            return await compare(api, wanted.served_as(version or "").pieces(), force=force)

        self._steps = self._run(ask)
        return [_said(each) for each in self._steps]

    def apply(self, *, force: bool) -> None:
        """Apply what was compared last."""

        async def act(api: "Api") -> None:
            from regions.kueue.setting_up import apply

            for step in self._steps:
                await apply(api, step, force=force)

        self._run(act)

    def survey(self, wanted: Wanted) -> tuple[tuple[str, ...], list[Said]]:
        """Say why nothing can be taken back, or what would be."""
        settings = wanted.settings

        async def ask(api: "Api") -> "tuple[tuple[str, ...], tuple[Found, ...]]":
            from regions.kueue.discovery import discover
            from regions.kueue.taking_back import survey

            left = await survey(
                api, await discover(api), settings.namespace, settings.account_namespace
            )
            return left.refused, left.found

        refused, self._found = self._run(ask)
        return refused, [
            Said(
                what=each.name,
                state="stays" if each.left else "goes",
                said=(each.left,) if each.left else (),
                is_to_do=not each.left,
            )
            for each in self._found
        ]

    def remove(self) -> Iterator[Said]:
        """Remove what was surveyed last, and say what became of it."""

        async def act(api: "Api") -> list[Said]:
            from regions.kueue.clock import SystemClock
            from regions.kueue.taking_back import Left, remove

            left = Left(refused=(), found=self._found)
            return [
                Said(what=each.name, state="goes", said=(said,))
                async for each, said in remove(api, left, SystemClock())
            ]

        yield from self._run(act)

    def _run(self, act: "Callable[[Api], Awaitable[T]]") -> T:
        try:
            from regions.kueue.access import Api
            from regions.kueue.clock import SystemClock
            from regions.kueue.credentials import Kubeconfig
            from regions.kueue.errors import ClusterError
        except ModuleNotFoundError as error:
            raise click.UsageError(
                f"to speak to a cluster takes what only the daemon needs otherwise ({error.name}):"
                " pip install 'capacity-broker[daemon]'. What is printed can be applied by kubectl."
            ) from error

        async def connected() -> T:
            path = self.kubeconfig or _default_kubeconfig()
            api = Api(Kubeconfig(path=path, context=self.context), SystemClock())
            try:
                return await act(api)
            finally:
                await api.close()

        try:
            return asyncio.run(connected())
        except ClusterError as error:
            raise _told(error) from error


def _default_kubeconfig() -> str:
    named = os.environ.get("KUBECONFIG", "").split(os.pathsep)
    return next((each for each in named if each), "~/.kube/config")


def _told(error: "ClusterError") -> BrokerError:
    from regions.kueue.errors import SilentError

    if isinstance(error, SilentError):
        return TooLate(f"the cluster did not answer: {error}", reason="DEADLINE_EXCEEDED")
    return NotNow(f"the cluster did not do it: {error}")


def _said(step: "Step") -> Said:
    from regions.kueue.setting_up import What

    return Said(
        what=step.piece.name,
        state=step.what.value,
        said=step.said,
        is_to_do=step.is_to_do,
        is_refused=step.what is What.REFUSED,
    )
