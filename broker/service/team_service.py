"""TeamService: what teams hold, and what they may.

Read ``TeamService.SetTeamCaps`` first.
"""

# The methods are named as in the proto.
# ruff: noqa: N802

from dataclasses import replace

from broker.history.commands import SetCaps
from broker.model.actor import Actor, ActorKind
from broker.service import fields
from broker.service.caller import may_see
from broker.service.convert_team import caps_of, team_message
from broker.service.edge import unary
from broker.service.errors import invalid
from broker.service.pages import cursor_of, token_of
from broker.service.ports import Ports
from broker.v1 import team_pb2, team_service_pb2, team_service_pb2_grpc

TEAMS_DEFAULT, TEAMS_MAX = 100, 1_000


class TeamService(team_service_pb2_grpc.TeamServiceServicer):
    """Teams and their caps."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    @unary
    async def GetTeam(self, request: team_service_pb2.GetTeamRequest, _: Actor) -> team_pb2.Team:
        """Return one team."""
        return await self._message(fields.team_id(request.name, "name"))

    @unary
    async def ListTeams(
        self, request: team_service_pb2.ListTeamsRequest, _: Actor
    ) -> team_service_pb2.ListTeamsResponse:
        """Return one page of the teams that have caps."""
        size = fields.page_size(request.page_size, default=TEAMS_DEFAULT, largest=TEAMS_MAX)
        cursor = cursor_of(request.page_token, (str,), "teams")
        known = sorted(state.id for state in self._ports.log.teams() if may_see(state.id))
        beyond = [team for team in known if cursor is None or team > str(cursor[0])]
        page = beyond[:size]
        return team_service_pb2.ListTeamsResponse(
            teams=[await self._message(team) for team in page],
            next_page_token=token_of((page[-1],) if len(beyond) > size else None, "teams"),
        )

    @unary
    async def SetTeamCaps(
        self, request: team_service_pb2.SetTeamCapsRequest, actor: Actor
    ) -> team_pb2.Team:
        """Replace a team's caps."""
        team = fields.team_id(request.name, "name")
        generation = fields.generation(request.etag)
        if not request.HasField("caps"):
            raise invalid("caps", "is required")
        command = SetCaps(caps=caps_of(request.caps), expected_generation=generation)
        ops = replace(actor, kind=ActorKind.OPS)
        await self._ports.log.handle(f"teams/{team}", command, ops)
        return await self._message(team)

    async def _message(self, team: str) -> team_pb2.Team:
        await self._ports.log.whole()
        return team_message(self._ports.log.team(team), self._ports.log.standing(team))
