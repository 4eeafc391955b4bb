"""``broker completion``: what a shell is told so that it completes verbs, runs and regions.

Read ``completion`` first.
"""

import click
from click.shell_completion import get_completion_class

from broker.cli.session import Session
from broker.cli.verbs import BROKER, verb

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_BROKER_COMPLETE"


@verb(
    example="""
    eval "$(broker completion bash)"
    broker completion zsh > ~/.zfunc/_broker
    broker completion fish > ~/.config/fish/completions/broker.fish
    """
)
@click.argument("shell", type=click.Choice(SHELLS))
def completion(session: Session, shell: str) -> None:
    """Print what SHELL is to be told, so that it completes verbs, runs and regions."""
    kind = get_completion_class(shell)
    assert kind is not None
    # The class's own source() asks bash for its version; what it gives does not depend on it.
    said = kind(BROKER, {}, "broker", VARIABLE)
    session.say(said.source_template % said.source_vars())
