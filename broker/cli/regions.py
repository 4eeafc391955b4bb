"""``broker regions``: see, cordon and drain regions, and what to make of their stores.

Read ``listing`` first.
"""

from collections.abc import Iterator, Mapping

import click

from broker.cli import words
from broker.cli.arguments import DURATION, REGION
from broker.cli.bootstrap import bootstrap
from broker.cli.following import ask
from broker.cli.quota import laid, quota
from broker.cli.session import Session
from broker.cli.verbs import Family, verb
from broker.sdk.quantities import size_text
from broker.v1 import region_pb2

REGIONS = ("REGION", "STATE", "CLUSTERS", "GPUS IN USE", "FREE NODES", "WAITING", "SAID")
FLAVORS = ("FLAVOR", "TYPE", "MACHINE", "$/GPU-HOUR", "QUOTA", "FREE", "COMING", "WAITING", "ZONES")
KNOWN = ("TYPE", "FLAVOR", "WHAT", "SAID", "BY", "WHEN", "TIMES")


@click.group(cls=Family, default="list", name="regions", example="broker regions")
def regions() -> None:
    """See, cordon and drain regions. Without a verb they are listed."""


@verb(name="list", example="broker regions")
def listing(session: Session) -> None:
    """List all regions with their clusters as last seen."""
    found = session.client.regions.find()
    if session.is_json:
        session.show_json(found)
        return
    session.say(words.table(REGIONS, [_region(one, session.now_s) for one in found.regions]))


def _region(region: region_pb2.Region, now_s: float) -> tuple[str, ...]:
    flavors = [flavor for cluster in region.clusters for flavor in cluster.flavors]
    free = [flavor.nodes_free for flavor in flavors if flavor.HasField("nodes_free")]
    waiting = [flavor.pending for flavor in flavors if flavor.HasField("pending")]
    used = [flavor.used for flavor in flavors if flavor.HasField("used")]
    return (
        words.id_of(region.name),
        words.enum_name(region, "state"),
        str(len(region.clusters)),
        str(sum(used)) if used else "unknown",
        str(sum(free)) if free else "unknown",
        str(max(waiting)) if waiting else "unknown",
        "; ".join(_troubles(region, now_s)) or region.message,
    )


def _troubles(region: region_pb2.Region, now_s: float) -> list[str]:
    found = [said for said in (region.message, region.store_message) if said]
    for cluster in region.clusters:
        if cluster.not_configured:
            found.append(f"{cluster.cluster} is not configured any more, and runs are left there")
        elif not cluster.reachable:
            found.append(f"{cluster.cluster} {_silence(cluster, now_s)}")
        elif not cluster.store_reachable and not region.store_message:
            found.append(f"the store of {cluster.cluster} does not answer")
        blind = (said for said in cluster.blind if said != region.store_message)
        found.extend(f"{cluster.cluster}: {said}" for said in blind)
    return found


def _silence(cluster: region_pb2.ClusterStatus, now_s: float) -> str:
    if not cluster.HasField("silent_time"):
        return "does not answer"
    return f"has not answered for {words.span(now_s - words.wall_s(cluster.silent_time))}"


@verb(example="broker regions show us-east4")
@click.argument("region", type=REGION)
def show(session: Session, region: str) -> None:
    """Show REGION: the machines of its clusters, what waits there, and what is not as it should.

    Of quota, RESERVED is what was given to gangs; PARKED is that of it which is not used yet, by
    those who wait for a check or for machines; FREE is what a new gang could reserve now, what it
    could borrow included.
    """
    found = session.client.regions.get(region)
    if session.is_json:
        session.show_json(found)
        return
    session.say(f"{region}: {words.enum_name(found, 'state')}")
    for trouble in _troubles(found, session.now_s):
        session.say(f"  {trouble}")
    if found.store:
        session.say(f"  its store is {found.store}")
    if found.HasField("registry"):
        session.say(f"  {registry_line(found.registry)}")
    for copy in found.image_copies:
        done = f"{size_text(copy.done_bytes)} of about {size_text(copy.size_bytes)}"
        session.say(f"  being copied there: {copy.image}, {done}")
    for cluster in found.clusters:
        seen = (
            f"seen {words.ago(cluster.seen_time, session.now_s)}"
            if cluster.HasField("seen_time")
            else "never seen"
        )
        session.say()
        session.say(f"cluster {cluster.cluster}, {seen}")
        session.say(words.table(FLAVORS, [_flavor(one) for one in cluster.flavors]))
        if cluster.flavors:
            session.say()
            session.say(quota(cluster))
        for line in beside(cluster, session.now_s):
            session.say(line)
        for orphan in cluster.orphans:
            session.say(f"  unknown: {orphan.object}: {orphan.message}")


def registry_line(registry: region_pb2.ImageRegistry) -> str:
    """Return where a region's images are pulled from, and how the broker reaches that."""
    rate = size_text(registry.pull_bytes_per_second)
    login = _LOGINS.get(registry.login, registry.login)
    layers = _UPLOADS.get(registry.upload, registry.upload)
    return (
        f"images are pulled from {registry.prefix}, about {rate}/s on a new machine; the broker"
        f" logs in there {login}, and sends layers {layers}"
    )


_LOGINS = {"none": "as nobody", "file": "out of a file", "google": "as Google's credentials say"}
_UPLOADS = {"whole": "whole", "chunks": "in chunks"}


def beside(cluster: region_pb2.ClusterStatus, now_s: float) -> Iterator[str]:
    """Yield what is known beside the figures: profiles, signals, facts, and what is odd."""
    yield from _rooms(cluster)
    profiles: dict[tuple[str, ...], dict[str, None]] = {}
    for one in cluster.flavors:
        if one.profile.name:
            told = (_profile(one.profile), *laid(one.profile))
            profiles.setdefault(told, {})[one.flavor] = None
    for (said, *parts), flavors in profiles.items():
        yield f"  profile of {', '.join(flavors)}: {said}"
        yield from (f"    {part}" for part in parts)
    kinds = {(one.queue, one.flavor): words.kind(one) for one in cluster.flavors}
    rows = [_signal(one, kinds, now_s) for one in cluster.signals]
    rows += [_fact(one, kinds, now_s) for one in cluster.known]
    if rows:
        yield ""
        yield words.table(KNOWN, sorted(rows))
    for note in cluster.notes:
        yield f"  {note}"


def _rooms(cluster: region_pb2.ClusterStatus) -> Iterator[str]:
    """Yield what of a gang would fit now, for each flavor and zone: whole machines first."""
    for flavor in cluster.flavors:
        zones: dict[str, list[str]] = {}
        for one in flavor.room:
            close = f" ({one.ranks_close} close together)" if one.HasField("ranks_close") else ""
            fits = f"{one.ranks} with {one.accelerators_per_rank} GPUs{close}"
            zones.setdefault(one.zone or "an unnamed zone", []).append(fits)
        for zone, told in zones.items():
            yield f"  free in {flavor.queue}/{flavor.flavor}, {zone}: ranks {', '.join(told)}"


def _profile(profile: region_pb2.PodProfile) -> str:
    said = " ".join(profile.widens) or "it opens nothing."
    return f"{profile.name}; {said}"


def _signal(
    signal: region_pb2.CapacitySignal, kinds: Mapping[tuple[str, str], str], now_s: float
) -> tuple[str, ...]:
    what = f"{signal.kind}{' (unknown)' if signal.unknown else ''}"
    return (
        kinds.get((signal.queue, signal.flavor), "-"),
        f"{signal.queue}/{signal.flavor}",
        what,
        signal.message,
        signal.source,
        words.ago(signal.time, now_s),
        str(signal.count),
    )


def _fact(
    fact: region_pb2.CapacityFact, kinds: Mapping[tuple[str, str], str], now_s: float
) -> tuple[str, ...]:
    return (
        kinds.get((fact.queue, fact.flavor), "-"),
        f"{fact.queue}/{fact.flavor}",
        fact.subject,
        fact.message,
        fact.source,
        words.ago(fact.time, now_s),
        "",
    )


def _flavor(flavor: region_pb2.FlavorStatus) -> tuple[str, ...]:
    has = flavor.HasField
    price = words.dollars(flavor.price_per_gpu_hour) if has("price_per_gpu_hour") else "unknown"
    quota = (
        f"{flavor.reserved} of {flavor.nominal}"
        if has("nominal") and has("reserved")
        else "unknown"
    )
    return (
        f"{flavor.queue}/{flavor.flavor}{' (stopped)' if flavor.stopped else ''}",
        words.kind(flavor),
        f"{flavor.accelerators_per_node}x{flavor.accelerator}",
        price,
        quota,
        str(flavor.nodes_free) if has("nodes_free") else "unknown",
        str(flavor.nodes_coming) if has("nodes_coming") else "unknown",
        f"{flavor.pending}" if has("pending") else "unknown",
        ", ".join(flavor.zones),
    )


@verb(example='broker regions cordon us-east4 --message "network works tonight"')
@click.argument("region", type=REGION)
@click.option("--message", default="", help="Why, for those whose runs wait.")
def cordon(session: Session, region: str, *, message: str) -> None:
    """Send nothing new to REGION; what is there stays."""
    _said(session, session.client.regions.cordon(region, message=message))


@verb(example="broker regions uncordon us-east4")
@click.argument("region", type=REGION)
def uncordon(session: Session, region: str) -> None:
    """End a cordon or a drain of REGION."""
    _said(session, session.client.regions.uncordon(region))


@verb(example='broker regions drain us-east4 --grace 5m --message "it closes at noon"')
@click.argument("region", type=REGION)
@click.option("--message", default="", help="Why, for those whose runs are moved.")
@click.option("--grace", type=DURATION, metavar="TIME", help="To save; otherwise its policy's.")
def drain(session: Session, region: str, *, message: str, grace: float | None) -> None:
    """Cordon REGION and ask all that trains there to save and leave; it is queued elsewhere."""
    _said(session, session.client.regions.drain(region, message=message, grace_s=grace))


@verb(example="broker regions waive us-east4 --yes")
@click.argument("region", type=REGION)
@click.option("--yes", is_flag=True, help="Do not ask.")
def waive(session: Session, region: str, *, yes: bool) -> None:
    """Let a broker that was restored from a backup go on without having seen REGION."""
    ask(f"What started in {region} after the backup may then run twice. Go on?", is_sure=yes)
    _said(session, session.client.regions.waive(region))


@verb(name="accept-store", example="broker regions accept-store us-east4 --yes")
@click.argument("region", type=REGION)
@click.option("--yes", is_flag=True, help="Do not ask.")
def accept_store(session: Session, region: str, *, yes: bool) -> None:
    """Go on with the store that REGION has now, in the place of one that is lost.

    Checkpoints that only the lost one held are lost with it.
    """
    ask(f"What the former store of {region} held is given up. Go on?", is_sure=yes)
    _said(session, session.client.regions.accept_store(region))


def _said(session: Session, found: region_pb2.Region) -> None:
    if session.is_json:
        session.show_json(found)
        return
    said = f": {found.message}" if found.message else ""
    session.say(f"{words.id_of(found.name)}: {words.enum_name(found, 'state')}{said}")


for _one in (listing, show, cordon, uncordon, drain, waive, accept_store, bootstrap):
    regions.add_command(_one)
