"""``broker watch``: follow a run until it ends.

Read ``following.follow`` first.
"""

import click

from broker.cli.arguments import RUN, Whole
from broker.cli.following import follow
from broker.cli.session import Session
from broker.cli.verbs import verb


@verb(
    example="""
    broker watch digits
    broker watch digits --after 17 --output json
    """
)
@click.argument("run", type=RUN)
@click.option("--after", type=Whole(min=0), default=0, help="Only events after this one.")
@click.option("--all", "is_all", is_flag=True, help="Each step, sighting and checkpoint by itself.")
def watch(session: Session, run: str, *, after: int, is_all: bool) -> int:
    """Tell what happens to RUN until it ends; exit with 0 when it succeeded, else with 1.

    Whatever happens to the broker meanwhile, no event is missed and none is told twice. Ctrl-C ends
    the watching, not the run.
    """
    return follow(session, session.run_name(run), after_sequence=after, is_all=is_all)
