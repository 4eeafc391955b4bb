"""``broker orphans``: what stands in clusters and belongs to no run, and the removal of ours.

The rule: only what carries the mark of the broker's own log is removed, and only by name.
Read ``listing`` first.
"""

from collections.abc import Iterator

import click

from broker.cli import words
from broker.cli.following import ask
from broker.cli.session import Session
from broker.cli.verbs import Family, verb
from broker.sdk.errors import NotFound
from broker.v1 import region_pb2

NONE = "no orphans: all that was seen in clusters belongs to a run of this broker"
ORPHANS = ("ORPHAN", "CLUSTER", "SINCE", "OURS", "SAID")


@click.group(cls=Family, default="list", name="orphans", example="broker orphans")
def orphans() -> None:
    """See what is in clusters and belongs to no run. Without a verb they are listed."""


@verb(name="list", example="broker orphans")
def listing(session: Session) -> None:
    """List what says that it is of a run which this broker's log does not know.

    What is OURS was put there by this broker's log, before a restore mostly, and can be removed.
    Anything else may be another broker's: who owns it must remove it.
    """
    regions = session.client.regions.find().regions
    found = [(region, cluster, one) for region in regions for cluster, one in _of(region)]
    if session.is_json:
        session.show_json(
            {
                "orphans": [
                    {
                        "region": words.id_of(region.name),
                        "cluster": cluster,
                        "object": one.object,
                        "message": one.message,
                        "ours": one.ours,
                        "removing": one.removing,
                    }
                    for region, cluster, one in found
                ]
            }
        )
        return
    if not found:
        session.say(NONE)
        return
    session.say(words.table(ORPHANS, [_row(session, *one) for one in found]))


def _row(
    session: Session, region: region_pb2.Region, cluster: str, orphan: region_pb2.Orphan
) -> tuple[str, ...]:
    return (
        f"{words.id_of(region.name)}/{orphan.object}",
        cluster,
        words.ago(orphan.since_time, session.now_s),
        "leaving" if orphan.removing else "yes" if orphan.ours else "no",
        orphan.message,
    )


@verb(example="broker orphans remove us-east4/p4qx0c2mzz1a")
@click.argument("orphan", metavar="REGION/ID")
@click.option("--yes", is_flag=True, help="Do not ask.")
def remove(session: Session, orphan: str, *, yes: bool) -> None:
    """Remove an orphan that is ours. A gang that trains in it is told to stop first."""
    region, slash, object_ = orphan.partition("/")
    if not slash or not region or not object_:
        raise click.BadParameter("is not REGION/ID, as broker orphans lists them")
    found = session.client.regions.get(region)
    clusters = [cluster for cluster, one in _of(found) if one.object == object_]
    if not clusters:
        raise NotFound(f"there is no orphan {orphan}; broker orphans lists them")
    if len(clusters) > 1:
        raise click.BadParameter(f"{object_} is in {', '.join(clusters)}")
    ask(f"Whatever trains in {object_} ends, and belongs to nobody here. Go on?", is_sure=yes)
    left = session.client.regions.remove_orphan(region, clusters[0], object_)
    if session.is_json:
        session.show_json(left)
        return
    session.say(f"{orphan}: it is on its way out; broker orphans shows when it is gone")


def _of(region: region_pb2.Region) -> Iterator[tuple[str, region_pb2.Orphan]]:
    return ((cluster.cluster, one) for cluster in region.clusters for one in cluster.orphans)


for _one in (listing, remove):
    orphans.add_command(_one)
