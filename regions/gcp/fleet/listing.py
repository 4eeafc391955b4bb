"""Asks Google for a project's clusters (imports Google's client).

The rule: one question, one answer, one deadline; what it could not tell of is kept as it was.
Read ``FleetLister.look``.
"""

from google.cloud import container_v1

from regions.gcp.calls import ask
from regions.gcp.fleet.clusters import Fleet, merged, read_fleet

WITHIN_S = 30.0


class FleetLister:
    """One project's clusters, look by look."""

    def __init__(self, client: container_v1.ClusterManagerAsyncClient, project: str) -> None:
        self._client = client
        self._project = project
        self._last: Fleet | None = None

    async def look(self) -> Fleet:
        """Return all clusters with their node pools, those that were not told of as stale.

        Raises GoogleError; then the former look stands.
        """
        parent = f"projects/{self._project}/locations/-"
        # The client's own retries are off: who looks again and again decides when.
        answer = self._client.list_clusters(parent=parent, retry=None, timeout=WITHIN_S)
        message = container_v1.ListClustersResponse.pb(await ask(answer, WITHIN_S))
        fleet = read_fleet(self._project, message)
        self._last = fleet if self._last is None else merged(self._last, fleet)
        return self._last
