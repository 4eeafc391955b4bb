"""``brokerd tokens``: who may call from other machines. It works while brokerd runs, and without.

The rule: a token's word goes to standard output once and alone, so that a pipe takes nothing else;
no argument ever holds one. Read ``add_to`` first.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from broker.access.tokens import ALL_TEAMS, Role
from broker.options import StartError

DAY_S = 86_400.0
DAYS_MAX = 36_500.0

Work = Callable[[argparse.Namespace], int]
PathOf = Callable[[argparse.Namespace], Path]


def add_to(
    parser: argparse.ArgumentParser,
    tool: Callable[[argparse.ArgumentParser, Work], None],
    path_of: PathOf,
) -> None:
    """Give a parser its tools; ``tool`` adds the common flags, ``path_of`` finds the file."""
    tools = parser.add_subparsers(title="what to do", metavar="WHAT", required=True)
    adding = tools.add_parser("add", help="make a token; it is printed once")
    adding.add_argument("--actor", required=True, help="in whose name its calls are written down")
    adding.add_argument(
        "--team", help="whose runs it is for; - is all, which an operator's always is"
    )
    adding.add_argument(
        "--role",
        required=True,
        choices=[role.value for role in Role],
        help="viewer reads, member submits and changes runs, operator does everything",
    )
    adding.add_argument("--days", type=_days, help="how long it holds; without it, for ever")
    for flag, what in (("--secret", "secrets"), ("--service-account", "service accounts")):
        adding.add_argument(
            flag,
            action="append",
            default=[],
            metavar="NAME",
            help=f"{what} that its runs may name beside TEAM and TEAM.*; * and ? stand for others",
        )
    tool(adding, lambda parsed: _add(parsed, path_of))
    listing = tools.add_parser("list", help="show what was made, without the words")
    tool(listing, lambda parsed: _list(parsed, path_of))
    revoking = tools.add_parser("revoke", help="take a token back")
    revoking.add_argument("id", help="as list shows it")
    tool(revoking, lambda parsed: _revoke(parsed, path_of))


def _days(text: str) -> float:
    days = float(text)
    if not 0 < days <= DAYS_MAX:
        raise ValueError(text)
    return days


def _add(parsed: argparse.Namespace, path_of: PathOf) -> int:
    from broker.access import issuing
    from broker.runtime.clock import MachineReadings
    from broker.runtime.entropy import Ids

    role, team = Role(parsed.role), parsed.team
    if team is None and role is not Role.OPERATOR:
        raise StartError("--team says whose runs the token is for; - is all")
    now_s, path = MachineReadings().wall_s(), path_of(parsed)
    with _in_words():
        word, token = issuing.issue(
            path,
            actor=parsed.actor,
            team=ALL_TEAMS if team is None else team,
            role=role,
            now_s=now_s,
            expires_s=None if parsed.days is None else now_s + parsed.days * DAY_S,
            secrets=tuple(parsed.secret),
            service_accounts=tuple(parsed.service_account),
            draw=Ids().text,
        )
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()
    sys.stderr.write(
        f"token {token.id} is shown this once, and its hash is kept in {path}; its holder types:"
        " broker login --server HOST:PORT\n"
    )
    return 0


def _list(parsed: argparse.Namespace, path_of: PathOf) -> int:
    from broker.access import book, issuing
    from broker.runtime.clock import MachineReadings

    path = path_of(parsed)
    with _in_words():
        tokens = book.load(path) if path.exists() else ()
    sys.stdout.write(issuing.table(tokens, MachineReadings().wall_s()))
    return 0


def _revoke(parsed: argparse.Namespace, path_of: PathOf) -> int:
    from broker.access import issuing

    with _in_words():
        token = issuing.revoke(path_of(parsed), parsed.id)
    sys.stdout.write(f"token {token.id} of {token.actor} is taken back, within a second\n")
    return 0


@contextmanager
def _in_words() -> Iterator[None]:
    from broker.access.book import BookError

    try:
        yield
    except BookError as error:
        raise StartError(str(error)) from error
