"""``broker login`` and ``broker logout``: brokers of other machines.

The rule: a token is typed without an echo or comes by standard input, never by an argument, which
other users of a machine can see; it is kept only once the broker has taken it. Read ``login``.
"""

import sys
from dataclasses import replace
from pathlib import Path

import click

from broker.cli import words
from broker.cli.session import Session
from broker.cli.verbs import verb
from broker.sdk import logins
from broker.sdk.errors import HungUp, NotLoggedIn, SettingsError
from broker.sdk.logins import Login
from broker.sdk.plain import Client
from broker.sdk.settings import Settings, find, logins_file
from broker.v1 import broker_service_pb2

RETRY_FOR_S = 2.0
TOKEN_MAX = 512
ALL_TEAMS = "-"
PEM = click.Path(exists=True, dir_okay=False, path_type=Path)


@verb(
    example="""
    broker login --server broker.example:7443 --ca ca.pem
    broker login --server broker.example:7443 < token
    """
)
@click.option("--ca", type=PEM, help="Who signed its certificate; otherwise the system's own.")
@click.option("--cert", type=PEM, help="A certificate of your own, where the broker wants one.")
@click.option("--key", type=PEM, help="Its key.")
def login(session: Session, *, ca: Path | None, cert: Path | None, key: Path | None) -> None:
    """Ask for a token, try it, and keep it for the broker at --server.

    It is kept in logins.json beside the config file, which only you can read. From then on that
    broker is the one that is asked, unless another is named.
    """
    if (cert is None) != (key is None):
        raise click.UsageError("--cert and --key belong together")
    pair = None if cert is None or key is None else (cert.absolute(), key.absolute())
    file, server = logins_file(), _far(session)
    kept = logins.read(file)
    word = _asked()
    found = find(server=server, token=word, ca=ca, pair=pair)
    caller = _caller(found)
    former = kept.servers.get(server, Login())
    one = replace(
        former,
        token=word,
        ca=ca.read_text("ascii", "replace") if ca else former.ca,
        certificate=str(pair[0]) if pair else former.certificate,
        key=str(pair[1]) if pair else former.key,
        team=caller.team.removeprefix("teams/").removeprefix(ALL_TEAMS),
    )
    logins.write(file, kept.with_one(server, one))
    if session.is_json:
        from broker.sdk.showing import as_json

        session.show_json({"server": server, "caller": as_json(caller)})
        return
    left_s = words.wall_s(caller.expire_time) - session.now_s
    until = f", for {words.span(left_s)}" if caller.HasField("expire_time") else ""
    teams = "all teams" if caller.team.endswith("/-") else caller.team
    session.say(f"logged in to {server} as {caller.actor}, {caller.role} of {teams}{until}")


@verb(example="broker logout --server broker.example:7443")
def logout(session: Session) -> None:
    """Forget the token of the broker at --server; its ops can take it back for good."""
    file, server = logins_file(), _far(session)
    kept = logins.read(file)
    if server not in kept.servers:
        raise SettingsError("--server", f"nobody is logged in to {server}")
    logins.write(file, kept.without(server))
    session.show_json({"server": server}) if session.is_json else session.say(
        f"logged out of {server}"
    )


def _far(session: Session) -> str:
    server = session.settings.server
    if server.startswith("unix:"):
        raise SettingsError("--server", "name the broker as HOST:PORT; a socket wants no login")
    return server


def _asked() -> str:
    """Return the token that is typed, or comes by standard input."""
    if sys.stdin.isatty():
        word = click.prompt("Token", hide_input=True, err=True)
    else:
        word = sys.stdin.readline(TOKEN_MAX + 2)
    word = str(word).strip()
    if not word:
        raise SettingsError("token", "is missing; it is typed, or comes by standard input")
    return word


def _caller(found: Settings) -> broker_service_pb2.Caller:
    """Return who the broker takes the token for. Raises BrokerError."""
    try:
        with Client(found, retry_for_s=RETRY_FOR_S) as client:
            broker = client.teams.broker()
    except HungUp as error:
        # TLS has no word for it: a broker that wants a certificate just ends the connection.
        if found.access is None or found.access.certificate is not None:
            raise
        hint = "if it wants a certificate of yours, give --cert and --key"
        raise HungUp(f"{error.message}; {hint}", reason=error.reason) from error
    if not broker.HasField("caller"):
        raise NotLoggedIn(f"the broker at {found.server} asks for no token")
    return broker.caller
