"""Gangs and the network policies that keep each of them apart from others.

The rule: a policy is owned by its gang's JobSet, by its uid, so that it comes after it and goes
with it; what was seen to be apart once is remembered, and asked for again only by a broker that
started anew. Read ``Apart.keep``, then ``Apart.look``.
"""

from typing import Any

from regions.cluster import Cause, Outcome
from regions.kueue import names
from regions.kueue.access import Api
from regions.kueue.answers import decoded
from regions.kueue.errors import ConflictError, MissingError
from regions.store_orders import silence

MAX_REMEMBERED = 10_000
NOT_APART = Outcome(
    is_done=False,
    cause=Cause.UNKNOWN,
    message="nothing keeps its gang apart from others yet: its network policy is not there",
    retry_after_s=1.0,
)
NOT_ITS_OWN = Outcome(
    is_done=False,
    cause=Cause.REFUSED,
    message="a network policy of its name is there that is not its own",
)


class Apart:
    """The gangs of a namespace that are known to be kept apart."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self._where = f"/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies"
        self._known: dict[str, tuple[str, str]] = {}

    def knows(self, placement: str) -> bool:
        """Whether a placement's gang is known to be kept apart."""
        return placement in self._known

    def of(self, placement: str, order: str) -> str:
        """Return the uid of the JobSet for which a placement's policy was made by an order's
        digest; empty: none was."""
        uid, made_by = self._known.get(placement, ("", ""))
        return uid if made_by == order else ""

    async def keep(self, placement: str, policy: dict[str, Any], uid: str, order: str) -> Outcome:
        """Have the policy of a gang's JobSet, for an order's digest. Raises ClusterError."""
        try:
            await self._api.ask("POST", self._where, body=policy)
        except ConflictError:
            found = await self._find(placement)
            if found is None:
                return silence("its network policy went while it was looked at")
            if not _is_owned(found, uid):
                return NOT_ITS_OWN
        return self._remember(placement, uid, order)

    async def look(self, placement: str, uid: str) -> Outcome:
        """Say whether a gang's JobSet has its policy. Raises ClusterError."""
        found = await self._find(placement)
        if found is None or not _is_owned(found, uid):
            return NOT_APART
        return self._remember(placement, uid, "")

    def _remember(self, placement: str, uid: str, order: str) -> Outcome:
        self._known[placement] = (uid, order)
        while len(self._known) > MAX_REMEMBERED:
            del self._known[next(iter(self._known))]
        return Outcome(is_done=True)

    async def _find(self, placement: str) -> dict[str, Any] | None:
        try:
            name = names.jobset_name(placement)
            return decoded(await self._api.ask("GET", f"{self._where}/{name}"))
        except MissingError:
            return None


def _is_owned(found: dict[str, Any], uid: str) -> bool:
    """Whether an object, as the cluster told it, names an owner by this uid."""
    meta = found.get("metadata")
    owners = meta.get("ownerReferences") if isinstance(meta, dict) else None
    return isinstance(owners, list) and any(
        isinstance(one, dict) and one.get("uid") == uid for one in owners
    )
