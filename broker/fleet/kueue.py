"""A cluster of Kubernetes with Kueue, as a configuration names it (imports its client).

The rule: nothing is asked of a cluster to join it; one that does not answer is an outage of its
region. Read ``KueueLink`` first.
"""

import asyncio
import random
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from broker.config import Buckets, ConfigError, Flavor, Kueue
from broker.fleet.fleet import Work
from broker.fleet.places import Place, Places
from broker.fleet.pricing import Pricing
from broker.loops.outposts import Outpost
from regions.kueue.access import Api
from regions.kueue.clock import SystemClock
from regions.kueue.cluster import KueueCluster
from regions.kueue.credentials import Credentials, Found, InCluster, Kubeconfig
from regions.kueue.flavors import FlavorSettings
from regions.kueue.profile_rules import ProfileError, read_profiles, store_problem
from regions.kueue.profiles import Profiles
from regions.kueue.queue_view import QueueSettings
from regions.kueue.scout import Scout
from regions.kueue.site import Bucket, Pace
from regions.kueue.sites import KueueSettings
from regions.launcher.store import GS, location_of

MAX_PROFILES_BYTES = 1 << 20
LEAST_FRESH_S, FRESH_POLLS = 4.0, 15
"""A gate's count proves that its process is there for so many of its looks, and so long at least:
a busy machine, or a store over a network, delays a few of them."""
CONTROL_POLLS, REPORT_POLLS = 3.0, 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KueueMember:
    """One cluster with Kueue. ``scout`` tells what its cloud knows, None where nobody does."""

    entry: Kueue
    settings: KueueSettings
    credentials: Credentials
    store: Place
    scout: Scout | None = None
    needs_image: bool = True

    @property
    def cluster(self) -> str:
        """Its name."""
        return self.entry.name

    @property
    def region(self) -> str:
        """Where it stands."""
        return self.entry.region

    def connect(self) -> "KueueLink":
        """Return the way to it."""
        return KueueLink(self)


class KueueLink:
    """The way to a cluster with Kueue."""

    is_embedded = False

    def __init__(self, member: KueueMember) -> None:
        self._member = member
        clock = SystemClock()
        self._api = Api(member.credentials, clock)
        self.port = KueueCluster(
            self._api,
            member.store.control(),
            member.settings,
            clock=clock,
            chance=random.Random(),
            scout=member.scout,
            wall_s=self._api.time.wall_s,
        )

    @property
    def outpost(self) -> Outpost:
        """The cluster behind its port."""
        port = self.port
        return Outpost(cluster=port.cluster, region=port.region, port=port, news=port)

    @property
    def works(self) -> tuple[tuple[str, Work], ...]:
        """It is followed as long as the broker runs."""
        return ((f"watcher {self._member.cluster}", self.port.run),)

    async def start(self, lifeline: int | None, *, is_known: bool) -> None:
        """Mark the store of a region that is new as one. Raises StartError where it cannot be."""
        if not is_known:
            await asyncio.to_thread(self._member.store.mark, self._member.region)

    async def mend(self, lifeline: int | None) -> None:
        """Nothing of it is ours to start."""

    async def close(self) -> None:
        """Let go of its connections."""
        await self._api.close()


def members_of(
    named: Mapping[int, Kueue], pricing: Pricing, places: Places, buckets: Buckets
) -> tuple[list[KueueMember], tuple[tuple[str, Work], ...]]:
    """Return the members by their place in the configuration, and what goes on for several.

    Raises ConfigError.
    """
    members = [
        KueueMember(
            entry=one,
            settings=settings_of(one, _profiles(f"clusters[{at}]", one), pricing, buckets),
            credentials=_credentials(one),
            store=places.at(one.store),
        )
        for at, one in named.items()
    ]
    if not any(each.entry.gke for each in members):
        return members, ()

    from broker.fleet.google import Projects

    projects = Projects()
    scouted = [
        replace(each, scout=projects.scout(each.entry.gke)) if each.entry.gke else each
        for each in members
    ]
    return scouted, projects.works


def settings_of(
    entry: Kueue, profiles: Profiles, pricing: Pricing, buckets: Buckets
) -> KueueSettings:
    """Return a cluster's settings, as it takes them."""
    poll_s = entry.gate_poll_s
    fresh_s = max(LEAST_FRESH_S, FRESH_POLLS * poll_s)
    return KueueSettings(
        cluster=entry.name,
        region=entry.region,
        queues=QueueSettings(
            namespace=entry.namespace,
            queues=frozenset(entry.queues),
            flavors={name: _flavor(one) for name, one in entry.flavors.items()},
            prices={
                name: one.price_per_gpu_hour
                for name, one in entry.flavors.items()
                if one.price_per_gpu_hour is not None
            },
            price_of=pricing.at(entry.region),
        ),
        profiles=profiles,
        bucket=_bucket(entry, buckets),
        store_reach=entry.store_reach,
        is_gke=entry.has_gke_nodes or bool(entry.gke),
        priority_classes=frozenset(entry.priority_classes),
        pace=Pace(
            gate_poll_s=poll_s,
            gate_fresh_s=fresh_s,
            control_poll_s=CONTROL_POLLS * poll_s,
            report_s=REPORT_POLLS * poll_s,
        ),
        gate_fresh_s=fresh_s,
    )


def _bucket(entry: Kueue, buckets: Buckets) -> Bucket | None:
    if not entry.store.startswith(GS):
        return None
    return Bucket(location=location_of(entry.store), endpoint=buckets.endpoint)


def _flavor(said: Flavor) -> FlavorSettings:
    return FlavorSettings(
        capacity_type=said.capacity_type,
        accelerator=said.accelerator,
        accelerators_per_node=said.accelerators_per_node,
        zones=said.zones,
        max_nodes=said.max_nodes,
        startup_s=said.startup_s,
        preemption_notice_s=said.preemption_notice_s,
        max_run_s=said.max_run_s,
    )


def _profiles(at: str, entry: Kueue) -> Profiles:
    path = Path(entry.profiles)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_PROFILES_BYTES + 1)
        if len(data) > MAX_PROFILES_BYTES:
            raise ConfigError(f"{at}.profiles: {path} is larger than {MAX_PROFILES_BYTES} bytes")
        raw = tomllib.loads(data.decode())
        profiles = read_profiles(raw, allows_host_paths=entry.allows_host_paths)
    except OSError as error:
        raise ConfigError(f"{at}.profiles: {path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{at}.profiles: {path} is not TOML: {error}") from error
    except ProfileError as error:
        raise ConfigError(f"{at}.profiles: {path}: {error}") from error
    for name, profile in (("default", profiles.default), *profiles.flavors.items()):
        if why := store_problem(profile, is_bucket=entry.store.startswith(GS)):
            raise ConfigError(f"{at}.profiles: {path}: {name}.{why}")
    return profiles


def _credentials(entry: Kueue) -> Credentials:
    if entry.in_cluster:
        return InCluster()
    if entry.kubeconfig:
        return Kubeconfig(path=entry.kubeconfig, context=entry.context)

    from broker.fleet.google import OwnDoors, find_endpoint

    return Found(find=find_endpoint(entry.gke, OwnDoors()))
