"""``broker regions bootstrap``: what a cluster needs before it can be a member.

The rule: it speaks to the cluster with the rights of who types it, never with the broker's, and
asks no broker; nothing is changed without ``--apply`` or ``--remove``, and not before it was said.
Read ``bootstrap`` first; ``member`` has what touches the cluster.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from broker.cli import exits, words
from broker.cli.following import ask
from broker.cli.session import Session
from broker.cli.verbs import verb

if TYPE_CHECKING:
    from broker.cli.member import Cluster, Said, Wanted

EXAMPLE = """
broker regions bootstrap --queue training=research > member.yaml
broker regions bootstrap --queue training=research --context eu-west4 --apply
broker regions bootstrap --own-cluster-queue broker --cohort all --flavor spot:nvidia.com/gpu=64
broker regions bootstrap --context eu-west4 --remove
"""


@verb(example=EXAMPLE)
@click.option("--context", default="", help="Of the kubeconfig; otherwise its current one.")
@click.option("--kubeconfig", default="", help="Otherwise KUBECONFIG, then ~/.kube/config.")
@click.option("--namespace", default="capacity-broker", show_default=True, help="For gangs.")
@click.option(
    "--queue", "queues", multiple=True, metavar="NAME=CLUSTERQUEUE", help="A LocalQueue to make."
)
@click.option("--own-cluster-queue", default="", metavar="NAME", help="Make a ClusterQueue, too.")
@click.option("--cohort", default="", help="Of the ClusterQueue; without one it never borrows.")
@click.option(
    "--flavor", "flavors", multiple=True, metavar="NAME:RESOURCE=N,...", help="What it owns."
)
@click.option(
    "--check", "checks", multiple=True, metavar="NAME[:FLAVOR,...]", help="Its AdmissionCheck."
)
@click.option(
    "--account-namespace",
    default="capacity-broker-system",
    show_default=True,
    help="For the broker's account.",
)
@click.option(
    "--user", "users", multiple=True, help="How a broker logs in from elsewhere: no account then."
)
@click.option("--pod-security", default="restricted", show_default=True, help="For gangs' pods.")
@click.option("--no-pods-of-others", is_flag=True, help="Free machines stay unknown then.")
@click.option("--waiting", type=int, default=-1_000_000, help="The priority of gangs that wait.")
@click.option("--running", type=int, default=500_000, help="The priority of those that train.")
@click.option("--kueue-version", default="", help="Otherwise v1beta2, or what the cluster serves.")
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write the manifests there, a file for each kind of thing.",
)
@click.option("--apply", "is_apply", is_flag=True, help="Say what would change, ask, and apply.")
@click.option("--remove", "is_remove", is_flag=True, help="Take back what was set up.")
@click.option("--force", is_flag=True, help="Take over fields that others have set.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def bootstrap(session: Session, **given: Any) -> int:
    """Print what a member cluster needs, and what each part of it grants; or apply it.

    Namespaces, the broker's account and its rights, a network that is closed by default, two
    priorities, LocalQueues. No broker is asked, and no credential is made.
    """
    from broker.cli.member import Cluster, Wanted

    if given["is_apply"] and given["is_remove"]:
        raise click.UsageError("--apply and --remove cannot both be meant")
    wanted = Wanted.of(given)
    cluster = Cluster(kubeconfig=given["kubeconfig"], context=given["context"])
    if given["is_remove"]:
        return _remove(session, cluster, wanted, is_sure=given["yes"])
    if given["is_apply"]:
        return _apply(session, cluster, wanted, force=given["force"], is_sure=given["yes"])
    _print(session, wanted, given["directory"])
    return exits.OK


def _print(session: Session, wanted: "Wanted", directory: Path | None) -> None:
    if directory is not None:
        directory.mkdir(parents=True, exist_ok=True)
        for name, text in wanted.files().items():
            (directory / name).write_text(text, encoding="utf-8")
        session.note(f"wrote {len(wanted.files())} files to {directory}")
    elif session.is_json:
        session.show_json({"objects": wanted.objects()})
    else:
        session.say(wanted.text().rstrip("\n"))


def _apply(
    session: Session, cluster: "Cluster", wanted: "Wanted", *, force: bool, is_sure: bool
) -> int:
    steps = cluster.compare(wanted, force=force)
    is_refused = any(each.is_refused for each in steps)
    is_nothing = not any(each.is_to_do for each in steps)
    if not session.is_json:
        session.say(_table(steps))
    if not is_refused and not is_nothing:
        ask("Apply this?", is_sure=is_sure)
        cluster.apply(force=force)
    if session.is_json:
        session.show_json({"steps": [each.as_json() for each in steps]})
    if is_refused:
        session.note("nothing was applied: see what is refused, and name another, or mend it")
        return exits.REFUSED
    if not session.is_json:
        session.note("nothing is to be done" if is_nothing else wanted.next_step())
    return exits.OK


def _remove(session: Session, cluster: "Cluster", wanted: "Wanted", *, is_sure: bool) -> int:
    refused, found = cluster.survey(wanted)
    if refused:
        session.note(f"broker: nothing is taken back: {'; '.join(refused)}")
        return exits.REFUSED
    if not session.is_json:
        session.say(_table(found) if found else "nothing of ours is there")
    done: list[Said] = [each for each in found if not each.is_to_do]
    if any(each.is_to_do for each in found):
        ask("Remove this?", is_sure=is_sure)
        for each in cluster.remove():
            done.append(each)
            if not session.is_json:
                session.say(f"{each.what} {'; '.join(each.said)}")
    if session.is_json:
        session.show_json({"steps": [each.as_json() for each in done]})
    return exits.OK


def _table(steps: "list[Said]") -> str:
    rows = []
    for each in steps:
        first, *more = each.said or ("",)
        rows.append((each.what, each.state, first))
        rows += [("", "", one) for one in more]
    return words.table(("OBJECT", "STATE", "SAID"), rows)
