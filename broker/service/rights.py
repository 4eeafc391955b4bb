"""What each RPC needs: a role, and whose it is. One row for each RPC of every service.

The rule: what has no row is refused, and a test of the house holds the table against the protos.
Read ``RIGHTS`` first, then ``narrowed``.

A viewer reads what is of its team, logs and checkpoints too. A member changes its team's runs. An
operator does everything, for every team. Regions and their policies are read by all: they say where
a run can go. Health is asked by supervisors, which have no token; reflection wants one.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias, assert_never

from broker.access.tokens import Role, Token
from broker.history.refusals import Code, Refused
from broker.model.names import parse_run
from broker.model.reasons import Reason
from broker.service import fields
from broker.service.errors import invalid, not_found


@dataclass(frozen=True, slots=True)
class OfRun:
    """It is about the run that a field names. Another team's is not there."""

    field: str


@dataclass(frozen=True, slots=True)
class OfBundle:
    """It is about the bundle that a field names. Another team's is not there."""

    field: str


@dataclass(frozen=True, slots=True)
class OfTeam:
    """It is about the team that a field names, which is there as soon as it is named."""

    field: str


@dataclass(frozen=True, slots=True)
class OfTeams:
    """The same, or about all teams: of those, whoever calls sees its own."""

    field: str


@dataclass(frozen=True, slots=True)
class OfNobody:
    """It is of no team; what it answers is narrowed by the service where there is need."""


Whose: TypeAlias = OfRun | OfBundle | OfTeam | OfTeams | OfNobody


@dataclass(frozen=True, slots=True)
class Right:
    """What an RPC needs. ``role`` None: nothing, not even a token.

    ``cleared`` are fields that mean something to callers on this machine alone.
    """

    role: Role | None
    whose: Whose
    cleared: tuple[str, ...] = ()


_READ_RUN = Right(Role.VIEWER, OfRun("name"))
_READ_OF_RUN = Right(Role.VIEWER, OfRun("parent"))
_CHANGE_RUN = Right(Role.MEMBER, OfRun("name"))
_READ_WORLD = Right(Role.VIEWER, OfNobody())
_OPERATE = Right(Role.OPERATOR, OfNobody())

_BY_SERVICE: dict[str, dict[str, Right]] = {
    "broker.v1.RunService": {
        "SubmitRun": Right(Role.MEMBER, OfTeam("parent")),
        "GetRun": _READ_RUN,
        "ListRuns": Right(Role.VIEWER, OfTeams("parent")),
        "WatchRun": _READ_RUN,
        "AmendRun": _CHANGE_RUN,
        "CancelRun": _CHANGE_RUN,
        "ResumeRun": _CHANGE_RUN,
        "ForkRun": _CHANGE_RUN,
        "ReplaceRun": _CHANGE_RUN,
        "ExplainRun": _READ_RUN,
        "GetManifest": _READ_RUN,
        "GetTimeline": _READ_RUN,
        "TailLogs": _READ_RUN,
        "ReportProgress": _CHANGE_RUN,
        "UploadBundle": Right(Role.MEMBER, OfTeam("header.parent")),
        "GetBundle": Right(Role.VIEWER, OfBundle("name")),
        "ListCheckpoints": _READ_OF_RUN,
        "MarkCheckpoint": Right(Role.MEMBER, OfRun("parent")),
        "FetchCheckpoint": Right(Role.VIEWER, OfRun("parent"), cleared=("prefer_local_path",)),
        "ListReplicas": _READ_OF_RUN,
    },
    "broker.v1.RegionService": {
        "ListRegions": _READ_WORLD,
        "GetRegion": _READ_WORLD,
        "CheckRegion": _OPERATE,
        "GetPolicy": _READ_WORLD,
        "SetPolicy": _OPERATE,
        "CordonRegion": _OPERATE,
        "UncordonRegion": _OPERATE,
        "DrainRegion": _OPERATE,
        "WaiveRegion": _OPERATE,
        "AcceptStore": _OPERATE,
        "RemoveOrphan": _OPERATE,
    },
    "broker.v1.TeamService": {
        "GetTeam": Right(Role.VIEWER, OfTeam("name")),
        "ListTeams": _READ_WORLD,
        "SetTeamCaps": _OPERATE,
    },
    "broker.v1.LocalService": {
        "InjectFault": _OPERATE,
    },
    "broker.v1.BrokerService": {
        "GetBroker": _READ_WORLD,
    },
    "grpc.health.v1.Health": {
        "Check": Right(None, OfNobody()),
        "List": _READ_WORLD,
        "Watch": _READ_WORLD,
    },
    "grpc.reflection.v1alpha.ServerReflection": {
        "ServerReflectionInfo": _READ_WORLD,
    },
}

RIGHTS: dict[str, Right] = {
    f"/{service}/{method}": right
    for service, methods in _BY_SERVICE.items()
    for method, right in methods.items()
}


def check_role(right: Right, token: Token, method: str) -> None:
    """Refuse a call that the token's role does not allow, whatever it says."""
    if right.role is not None and not token.role.reaches(right.role):
        name = method.rpartition("/")[2]
        raise Refused(
            reason=Reason.ROLE_NOT_ENOUGH,
            message=f"{name} needs the role {right.role}, and the token's is {token.role}",
            code=Code.PERMISSION_DENIED,
        )


def narrowed(right: Right, token: Token, request: Any) -> Any:
    """Return a request with what its sender may not ask left out, which changes the message.

    Raises Refused when it is about another team, InvalidArgument when what names the team cannot be
    read: what it is about is then unknown.
    """
    _check_team(right.whose, token, request)
    for field in right.cleared:
        request.ClearField(field)
    return request


def _check_team(whose: Whose, token: Token, request: Any) -> None:
    match whose:
        case OfNobody():
            return
        case OfRun(field):
            name = fields.run_name(_at(request, field), field)
            if not token.sees(parse_run(name)[0]):
                raise not_found(name)
        case OfBundle(field):
            name = fields.text(_at(request, field), field, longest=fields.NAME_MAX, required=True)
            parent, is_bundle, _ = name.partition("/bundles/")
            if not is_bundle:
                raise invalid(field, "is not of the form teams/TEAM/bundles/DIGEST")
            if not token.sees(fields.team_id(parent, field)):
                raise not_found(name)
        case OfTeam(field):
            _check_named(token, fields.team_id(_at(request, field), field))
        case OfTeams(field):
            team = fields.team_id(_at(request, field), field, may_be_all=True)
            if team:
                _check_named(token, team)
            elif not token.sees_all:
                setattr(request, field, f"teams/{token.team}")
        case _:
            assert_never(whose)


def _check_named(token: Token, team: str) -> None:
    if not token.sees(team):
        raise Refused(
            reason=Reason.NOT_YOUR_TEAM,
            message=f"the token is for teams/{token.team}",
            code=Code.PERMISSION_DENIED,
        )


def _at(request: Any, path: str) -> str:
    value = request
    for part in path.split("."):
        value = getattr(value, part)
    return str(value)
