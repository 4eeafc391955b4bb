"""What can be said about teams, and about the broker itself.

Teams are named by their ids. Read ``get`` first.
"""

from broker.sdk.calls import Operation, ask, change, read
from broker.v1 import broker_service_pb2, team_pb2
from broker.v1 import team_service_pb2 as ts

_TEAMS = "TeamService"
GET = read(_TEAMS, "GetTeam", ts.GetTeamRequest, team_pb2.Team)
LIST = read(_TEAMS, "ListTeams", ts.ListTeamsRequest, ts.ListTeamsResponse)
SET_CAPS = change(_TEAMS, "SetTeamCaps", ts.SetTeamCapsRequest, team_pb2.Team)
GET_BROKER = read(
    "BrokerService", "GetBroker", broker_service_pb2.GetBrokerRequest, broker_service_pb2.Broker
)


def get(team: str) -> Operation[team_pb2.Team]:
    """Return a team, its caps and what it holds."""
    return (yield from ask(GET, ts.GetTeamRequest(name=f"teams/{team}")))


def find() -> Operation[list[team_pb2.Team]]:
    """Return the teams that have caps."""
    found: list[team_pb2.Team] = []
    request = ts.ListTeamsRequest()
    while True:
        page = yield from ask(LIST, request)
        found.extend(page.teams)
        request.page_token = page.next_page_token
        if not page.next_page_token:
            return found


def set_caps(team: str, caps: team_pb2.TeamCaps, *, etag: str) -> Operation[team_pb2.Team]:
    """Replace a team's caps. Raises Conflict when the etag is not the present one."""
    request = ts.SetTeamCapsRequest(name=f"teams/{team}", caps=caps, etag=etag)
    return (yield from ask(SET_CAPS, request))


def broker() -> Operation[broker_service_pb2.Broker]:
    """Say what is running and how it is doing."""
    return (yield from ask(GET_BROKER, broker_service_pb2.GetBrokerRequest()))
