"""Resource names and ids: ``teams/{team}/runs/{run}/placements/{placement}``.

Ids are lower-case DNS labels, so that one name serves the API, a store's path and, later, a
Kubernetes object. Read ``parse_run`` first.
"""

import re

ID_PATTERN = re.compile(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?")  # 40: leaves room for suffixes in 63
ID_RULE = "an id is lower-case letters, digits and '-', up to 40, a letter first"
PLACEMENT_PATTERN = re.compile(r"[a-z0-9]{12}")


class NameMalformedError(ValueError):
    """A resource name that does not have the documented shape."""


def is_id(text: str) -> bool:
    """Return whether text can be the id of a team, run, region or cluster."""
    return ID_PATTERN.fullmatch(text) is not None


def run_name(team: str, run: str) -> str:
    """Return ``teams/{team}/runs/{run}``; raise NameMalformedError when an id is malformed."""
    for part in (team, run):
        if not is_id(part):
            raise NameMalformedError(f"{part!r} is not an id; {ID_RULE}")
    return f"teams/{team}/runs/{run}"


def parse_run(name: str) -> tuple[str, str]:
    """Split a run's name into (team, run); raise NameMalformedError when it is not one."""
    parts = name.split("/")
    if len(parts) != 4 or parts[0] != "teams" or parts[2] != "runs":
        raise NameMalformedError(f"{name!r} is not of the form teams/TEAM/runs/RUN")
    if not (is_id(parts[1]) and is_id(parts[3])):
        raise NameMalformedError(f"{name!r} holds a malformed id; {ID_RULE}")
    return parts[1], parts[3]


def placement_name(run: str, placement: str) -> str:
    """Return ``{run}/placements/{placement}``."""
    return f"{run}/placements/{placement}"
