"""From a configuration to the clusters that it names.

The rule: whatever cannot be is refused here, before anything was started, by the path of the field
that says it. Read ``open_fleet`` first.
"""

from collections.abc import Iterable
from pathlib import Path

from broker.config import Config, ConfigError, Kueue, Local
from broker.embedded import default_worlds
from broker.fleet.embedded import EmbeddedMember
from broker.fleet.fleet import Fleet, Member
from broker.fleet.places import Places
from broker.options import StartError
from regions.local import config as worlds


def open_fleet(config: Config, data: Path) -> Fleet:
    """Return the clusters that are configured, or the embedded default.

    Raises ConfigError or StartError.
    """
    fleet = _open(config, data)
    for at, one in enumerate(config.registries):
        if one.region and one.region not in fleet.regions:
            raise ConfigError(
                f"registries[{at}].region: {one.region} is none of {', '.join(fleet.regions)}"
            )
    return fleet


def _open(config: Config, data: Path) -> Fleet:
    places = Places(config.buckets, data)
    if not config.clusters:
        default = default_worlds(data).items()
        return Fleet(members=tuple(_embedded(d, w, places) for d, w in default), places=places)
    local = [each for each in config.clusters if isinstance(each, Local)]
    members: list[Member] = [
        _embedded(Path(one.directory), worlds.load(Path(one.world)), places) for one in local
    ]
    _check_directories(local)
    if len(local) == len(config.clusters):
        _check_apart(members)
        return Fleet(members=tuple(members), places=places)

    from broker.fleet.kueue import members_of
    from broker.fleet.pricing import open_pricing

    pricing = open_pricing(config.prices, data)
    named = {at: one for at, one in enumerate(config.clusters) if isinstance(one, Kueue)}
    joined, works = members_of(named, pricing, places, config.buckets)
    members += joined
    _check_apart(members)
    return Fleet(
        members=tuple(members),
        places=places,
        works=(*pricing.works, *works),
        troubles=pricing.troubles,
    )


def _embedded(directory: Path, world: worlds.WorldConfig, places: Places) -> EmbeddedMember:
    return EmbeddedMember(directory=directory, world=world, store=places.at(world.store))


def _check_directories(local: Iterable[Local]) -> None:
    """Refuse two clusters of one directory; it is told by where it leads: two links to one are."""
    known: dict[Path, str] = {}
    for one in local:
        twin = known.setdefault(Path(one.directory).resolve(), one.directory)
        if twin != one.directory:
            raise StartError(f"clusters {one.directory} and {twin} are one directory")


def _check_apart(members: Iterable[Member]) -> None:
    """Refuse two clusters of one name, a region with two stores, and a store of two regions."""
    clusters: set[str] = set()
    stores: dict[str, str] = {}
    regions: dict[str, str] = {}
    for each in members:
        store, region = each.store.location, each.region
        if each.cluster in clusters:
            raise StartError(f"cluster {each.cluster} is named twice")
        clusters.add(each.cluster)
        if stores.setdefault(region, store) != store:
            raise StartError(
                f"region {region} has two stores, {stores[region]} and {store}: all clusters of a"
                " region share one"
            )
        if regions.setdefault(store, region) != region:
            raise StartError(
                f"regions {regions[store]} and {region} have one store, {store}: each needs its own"
            )
