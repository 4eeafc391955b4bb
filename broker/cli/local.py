"""``broker local``: make embedded regions misbehave, to see what happens.

Read ``stockout`` first.
"""

import click

from broker.cli.arguments import DURATION, REGION, Whole
from broker.cli.session import Session
from broker.cli.verbs import Family, verb
from broker.v1 import local_service_pb2 as ls


@click.group(cls=Family, name="local", example="broker local outage us-east4 --for 30s")
def local() -> None:
    """Make embedded regions misbehave, until they are restored.

    An outage ends by itself, and a preemption happens once.
    """


@verb(example="broker local stockout us-east4 --flavor h100-spot")
@click.argument("region", type=REGION)
@click.option("--flavor", default="", help="Otherwise all.")
def stockout(session: Session, region: str, *, flavor: str) -> None:
    """Let no new machine come in REGION."""
    fault = ls.InjectFaultRequest(stockout=ls.Stockout(flavor=flavor))
    _inject(session, region, fault)


@verb(example="broker local partial us-east4 --nodes 5")
@click.argument("region", type=REGION)
@click.option("--nodes", type=Whole(min=0), required=True, help="How many still come.")
@click.option("--flavor", default="", help="Otherwise all.")
def partial(session: Session, region: str, *, nodes: int, flavor: str) -> None:
    """Let only some more machines come in REGION, then none."""
    fault = ls.InjectFaultRequest(partial=ls.PartialArrival(flavor=flavor, nodes=nodes))
    _inject(session, region, fault)


@verb(
    example="""
    broker local preempt us-east4 --flavor h100-spot
    broker local preempt us-east4 --placement k3v9x0q2m7ab --notice 0s
    """
)
@click.argument("region", type=REGION)
@click.option("--flavor", default="", help="All on this flavor lose their machines.")
@click.option("--placement", default="", metavar="ID", help="Only this one does.")
@click.option("--notice", type=DURATION, metavar="TIME", help="Otherwise the flavor's own.")
def preempt(
    session: Session, region: str, *, flavor: str, placement: str, notice: float | None
) -> None:
    """Take machines back in REGION, once."""
    if bool(flavor) == bool(placement):
        raise click.UsageError("name either --flavor or --placement")
    fault = ls.InjectFaultRequest(preempt=ls.Preemption(flavor=flavor, placement=placement))
    if notice is not None:
        fault.preempt.notice.FromMilliseconds(round(notice * 1000))
    _inject(session, region, fault)


@verb(example="broker local outage us-east4 --for 30s")
@click.argument("region", type=REGION)
@click.option("--for", "duration", type=DURATION, metavar="TIME", default="30s", show_default=True)
def outage(session: Session, region: str, *, duration: float) -> None:
    """Let the cluster of REGION not answer; what runs there runs on."""
    fault = ls.InjectFaultRequest(outage=ls.Outage())
    fault.outage.duration.FromMilliseconds(round(duration * 1000))
    _inject(session, region, fault)


@verb(example="broker local slow us-east4 --delay 2s")
@click.argument("region", type=REGION)
@click.option("--delay", type=DURATION, metavar="TIME", default="2s", show_default=True)
def slow(session: Session, region: str, *, delay: float) -> None:
    """Let the cluster of REGION answer slowly."""
    fault = ls.InjectFaultRequest(slow=ls.Slowness())
    fault.slow.delay.FromMilliseconds(round(delay * 1000))
    _inject(session, region, fault)


@verb(example="broker local restore us-east4")
@click.argument("region", type=REGION)
def restore(session: Session, region: str) -> None:
    """End all faults of REGION."""
    _inject(session, region, ls.InjectFaultRequest(restore=ls.Restoration()))


def _inject(session: Session, region: str, fault: ls.InjectFaultRequest) -> None:
    fault.region = f"regions/{region}"
    done = session.client.regions.inject(fault)
    session.show_json({"message": done}) if session.is_json else session.say(done)


for _one in (stockout, partial, preempt, outage, slow, restore):
    local.add_command(_one)
