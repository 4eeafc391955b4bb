"""The verbs of ``broker``, and what all of them share.

The rule: a verb's module is loaded when the verb is used, and nothing heavy (rich, yaml, pathspec)
before it is needed, so that ``broker status`` answers at once. Read ``VERBS`` first.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from itertools import pairwise
from typing import Any

import click

from broker.cli.exits import CODES

VERBS: dict[str, dict[str, tuple[str, str]]] = {
    "Begin": {
        "login": ("login", "reach a broker on another machine, with a token"),
        "logout": ("login", "forget the token of a broker"),
        "init": ("init", "write a commented intent to start from"),
        "submit": ("submit", "submit a run"),
        "estimate": ("places", "where a run would go, at what price, how soon"),
        "simulate": ("places", "compare what other terms would bring now"),
    },
    "See": {
        "status": ("status", "where a run stands, why, and what happens next"),
        "run": ("run", "a run as it was asked for, and what is sent to clusters for it"),
        "explain": ("places", "every place a run could start, or why not"),
        "ls": ("ls", "list runs"),
        "watch": ("watch", "follow a run until it ends"),
        "logs": ("logs", "what a rank of a run wrote"),
        "timeline": ("timeline", "what happened to a run"),
        "cost": ("cost", "what a run's time and money went to"),
        "compare": ("compare", "runs side by side"),
        "replicas": ("checkpoints", "how far each region is behind a run's checkpoints"),
        "checkpoints": ("checkpoints", "list, mark, pin, label and fetch checkpoints"),
    },
    "Change": {
        "cancel": ("changes", "end a run"),
        "resume": ("changes", "bring a run back, or to another checkpoint"),
        "amend": ("amend", "change a run's terms"),
        "fork": ("changes", "make a run from a checkpoint of another"),
        "replace": ("changes", "go on elsewhere though a gang cannot be heard"),
    },
    "Look after": {
        "regions": ("regions", "see, cordon and drain regions"),
        "policy": ("policy", "read and set what a region allows"),
        "team": ("team", "teams and their caps"),
        "orphans": ("orphans", "what is in clusters and belongs to no run"),
        "cleanup": ("upkeep", "what is left over, and let go of it"),
        "doctor": ("upkeep", "check everything from here to the regions"),
        "local": ("local", "make embedded regions misbehave"),
        "completion": ("completion", "shell completion"),
    },
}
_ALL = {name: home for section in VERBS.values() for name, home in section.items()}
SERVER = click.Option(["--server"], metavar="ADDRESS", help="The broker: unix:/PATH or HOST:PORT.")
TEAM = click.Option(["--team"], metavar="TEAM", help="The team of runs named without one.")
OUTPUT = click.Option(
    ["--output", "-o"],
    type=click.Choice(["table", "json"]),
    help="For people, or for programs.",
)
HELP = ["--help", "-h"]
SHORT_HELP = 100  # characters
SETTINGS: dict[str, Any] = {"help_option_names": HELP, "max_content_width": 100}


def wants_json(arguments: Sequence[str]) -> bool:
    """Whether a command line asks for JSON, as far as can be told without reading it all.

    What stands after ``--`` is the user's own command.
    """
    if "--" in arguments:
        arguments = arguments[: arguments.index("--")]
    pairs = pairwise([*arguments, ""])
    return any(
        one in ("--output=json", "-ojson") or (one in ("--output", "-o") and value == "json")
        for one, value in pairs
    )


class Verb(click.Command):
    """A command with an example, the common options, and a session."""

    def __init__(self, *args: Any, example: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params = [*self.params, SERVER, TEAM, OUTPUT]
        self.context_settings = {**SETTINGS, **self.context_settings}
        self.example = example

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb with a session, which is closed at the end."""
        from broker.cli.session import Session

        said = {name: ctx.params.pop(name) for name in ("server", "team", "output")}
        above = ctx.find_root().params
        with Session(
            server=said["server"] or above.get("server") or "",
            team=said["team"] or above.get("team") or "",
            is_json=(said["output"] or above.get("output")) == "json",
        ) as session:
            ctx.obj = session
            return super().invoke(ctx)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the example, and what programs are answered."""
        from broker.cli.answers import ANSWERS

        _write_example(formatter, self.example)
        verb = ctx.command_path.partition(" ")[2]
        with formatter.section("With --output json"):
            formatter.write_text(ANSWERS[verb])


class VerbWithCommand(Verb):
    """A verb that takes the user's own command, all of it, after ``--``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take what stands after ``--`` as it is."""
        at = args.index("--") if "--" in args else len(args)
        command = tuple(args[at + 1 :])
        try:
            rest = super().parse_args(ctx, args[:at])
        except click.UsageError as error:
            if at < len(args) or "unexpected extra argument" not in error.message:
                raise
            hint = f"{error.message}; what is to be run comes after --"
            raise click.UsageError(hint, error.ctx) from error
        ctx.params["command"] = command
        return rest

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Show that the command comes last."""
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND...]"]


def verb(
    *, example: str, name: str | None = None, kind: type[Verb] = Verb
) -> Callable[[Callable[..., Any]], Verb]:
    """Make a verb of a function whose first parameter is the session."""

    def make(function: Callable[..., Any]) -> Verb:
        command = click.command(name, cls=kind, example=example)(click.pass_obj(function))
        assert isinstance(command, Verb)
        return command

    return make


class Family(click.Group):
    """Verbs about one thing. Without one of them, ``default`` is meant."""

    def __init__(self, *args: Any, example: str, default: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.example = example
        self.invoke_without_command = bool(default)
        self.default = default
        self.params = [*self.params, SERVER, TEAM, OUTPUT]
        self.context_settings = {**SETTINGS, **self.context_settings}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the default verb in front of what names none."""
        if self.default and not ctx.resilient_parsing:
            asks_help = any(one in HELP for one in args[:1])
            if not asks_help and not any(one in self.commands for one in args):
                args = [self.default, *args]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Hand on what was said before the verb's name."""
        root = ctx.find_root()
        for name in ("server", "team", "output"):
            if ctx.params.get(name):
                root.params[name] = ctx.params[name]
        ctx.params = {}
        return super().invoke(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs with their whole first sentences."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, one.get_short_help_str(SHORT_HELP)) for name, one in self.commands.items()]
            )

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the example."""
        _write_example(formatter, self.example)


def _write_example(formatter: click.HelpFormatter, example: str) -> None:
    with formatter.section("Example"):
        for line in example.strip().splitlines():
            formatter.write(f"{'':>{formatter.current_indent}}{line.strip()}\n")


class Broker(click.Group):
    """The program: its verbs by name, each loaded when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the verbs, by what they are for."""
        return list(_ALL)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a verb."""
        if cmd_name not in _ALL:
            return None
        module = import_module(f"broker.cli.{_ALL[cmd_name][0]}")
        command = getattr(module, cmd_name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a verb; say which one was meant."""
        if args and args[0] not in _ALL and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], _ALL, n=1)
            hint = f"did you mean `broker {near[0]}`?" if near else "`broker --help` lists them."
            ctx.fail(f"there is no verb {args[0]!r}: {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs without loading them."""
        for section, verbs in VERBS.items():
            with formatter.section(section):
                formatter.write_dl([(name, text) for name, (_, text) in verbs.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the exit codes and an example."""
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), meaning) for code, meaning in CODES.items()])
        with formatter.section("Example"):
            formatter.write("  broker init && broker submit intent.yaml --wait\n")


def _broker(**_: Any) -> None:
    """Queue training where it will start soonest for the money.

    The broker is found by --server, BROKER_SERVER, the config file
    ~/.config/broker/config.toml (server, team, user), the last login, then the default socket.
    """


BROKER = Broker(
    "broker",
    callback=_broker,
    help=_broker.__doc__,
    params=[SERVER, TEAM, OUTPUT],
    context_settings=dict(SETTINGS),
)
BROKER = click.version_option(package_name="capacity-broker", prog_name="broker")(BROKER)
