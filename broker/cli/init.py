"""``broker init``: a commented intent to start from.

Read ``TEMPLATE`` first.
"""

import re
from pathlib import Path

import click

from broker.cli import exits
from broker.cli.arguments import FILE
from broker.cli.session import Session
from broker.cli.verbs import verb
from broker.sdk.errors import AlreadyExists

COMMENT_COLUMN = 34  # where the comments beside short lines begin
TEMPLATE = """\
# What you want to run, and on which terms. Submit it: broker submit {file}
# ${{VAR}} is filled in from your environment when you submit; $${{ is a literal ${{.

{named}# the run's id; without it the broker draws one
# team: vision                    # otherwise --team, BROKER_TEAM or your config file

workload:                         # never changes; broker fork makes a run of another one
  command: {command}
  # The gangs that would do, best first: 8xH100 is one node of eight, 2x8xH100 two such nodes.
  # Each node runs the command once; it starts its own processes, as torchrun does.
  # A node of an embedded region has one GPU, so eight of them are 8x1xH100.
  hardware:
    - 8x1xH100
    # - accelerator: A100
    #   accelerators_per_node: 8
    #   nodes: 2
    #   relative_speed: 0.5       # against the first; for what a start there is worth
    #   topology: preferred       # none, preferred or required: how close the nodes stand
  # image: registry.example/train@sha256:...              # embedded regions need none
  # env:
  #   LEARNING_RATE: ${{LR}}
  # resources: {{cpu_millis: 4000, memory_bytes: 32GiB}}    # for each rank
  # secrets: [{{name: wandb, env: WANDB_API_KEY}}]          # by name, held by the cluster
  # service_account: trainer
  # service_account_token: true   # its processes can speak to the cluster as that account
  # internet: true                # they may connect out on port 443; closed without it
  # inputs:
  #   - uri: gs://bucket/data
  #     size_bytes: 500GB
  #     regions: [us-east4]       # where it is
  #     remote_reads: true        # may be read from elsewhere
  # checkpoint:
  #   format: files               # or pytorch-dcp, hugging-face, lightning, orbax
  #   interval: 10m
  #   keep_last: 3
  #   keep_every_steps: 10000
  # progress:
  #   timeout: 30m                # no step for this long is a hang
  #   loss_field: train/loss      # where a report's fields hold the loss

terms:                            # broker amend changes them at any time
  capacity_types: [spot, flex, on-demand]
  # regions: [us-east4]           # otherwise every one that policy allows
  # residency: [europe]           # the data stays in regions whose names begin with these words
  # max_wait: 2h                  # for the first start
  # after_max_wait: last-rung     # fail, keep-waiting, or last-rung: the surest, whatever it costs
  # max_requeue_wait: 6h          # for each start after that
  # deadline: 2030-03-01T18:00:00Z
  # expected_duration: 12h
  # budget: 500                   # US dollars
  # copies_budget: 50             # US dollars, for copies of its checkpoints between regions
  # priority: 0                   # higher is served first
  # limits: {{user_restarts: 3, infrastructure_losses: 100}}

# owner: ann                      # otherwise you
# labels: {{goal: 7b}}
"""


@verb(
    example="""
    broker init
    broker init digits.yaml --name digits --command "python train.py --lr 0.1"
    """
)
@click.argument("file", type=FILE, default="intent.yaml")
@click.option("--name", help="The run's id; otherwise the directory's name.")
@click.option("--command", default="python train.py", show_default=True, help="What runs.")
@click.option("--force", is_flag=True, help="Replace a file that is there.")
def init(session: Session, *, file: Path, name: str | None, command: str, force: bool) -> int:
    """Write a commented intent to FILE, to be changed and submitted; - for standard output."""
    named = f"name: {name or _name_of(Path.cwd().name)}  "
    text = TEMPLATE.format(
        file=file, named=f"{named:<{COMMENT_COLUMN}}", command=_yaml_text(command)
    )
    if str(file) == "-":
        session.say(text.rstrip())
        return exits.OK
    try:
        with file.open("w" if force else "x", encoding="utf-8") as opened:
            opened.write(text)
    except FileExistsError as error:
        raise AlreadyExists(f"{file} is there already: --force replaces it") from error
    except OSError as error:
        raise click.FileError(str(file), error.strerror or str(error)) from error
    if session.is_json:
        session.show_json({"path": str(file)})
    else:
        session.say(f"wrote {file}; see where it would go: broker estimate {file}")
    return exits.OK


def _name_of(folder: str) -> str:
    """Return an id that a folder's name suggests."""
    name = re.sub(r"[^a-z0-9]+", "-", folder.lower()).strip("-0123456789")[:40].rstrip("-")
    return name or "run"


def _yaml_text(command: str) -> str:
    if re.fullmatch(r"[A-Za-z][\w ./=,-]*", command):
        return command
    import json

    return json.dumps(command)  # a JSON text is a YAML text
