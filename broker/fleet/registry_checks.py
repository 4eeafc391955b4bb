"""Whether a registry answers, and what the login may do there, asked because a person asked.

The rule: what does not answer in time is a check that is not well, and each has what mends it.
Read ``examined`` first.
"""

import asyncio

from broker.model.check import ClusterCheck
from replicator.errors import LoginRefused, RegistryError, ReplicatorError
from replicator.oci.prefix import Prefix
from replicator.oci.registry import Registry
from replicator.oci.rights import may_pull, may_push

WITHIN_S = 10.0  # less than what is asked for the region as a whole
PROBE = "broker-doctor"
"""The repository that is asked about. Nothing is put there."""


async def examined(registry: Registry, prefix: Prefix, *, is_own: bool) -> ClusterCheck:
    """Return what there is to say of one registry; to its own one a region must be able to push."""
    repository, does = prefix.repository(PROBE), "pull"
    try:
        async with asyncio.timeout(WITHIN_S):
            await may_pull(registry, repository)
            if is_own:
                does = "push"
                await may_push(registry, repository)
    except TimeoutError:
        return _check(prefix, f"did not answer within {WITHIN_S:g} s", "see whether it is up")
    except ReplicatorError as error:
        return _check(prefix, f"{does}: {error.sentence}", _remedy(error, does))
    may = "pulled from and pushed to" if is_own else "pulled from"
    return _check(prefix, f"answers, and may be {may}", "")


def _remedy(error: ReplicatorError, does: str) -> str:
    if isinstance(error, LoginRefused):
        return f"give brokerd a login that may {does} there: registries.login"
    if isinstance(error, RegistryError) and error.can_retry:
        return "see whether it is up, and reached from here"
    return "see registries.prefix, and whether its repository was made"


def _check(prefix: Prefix, message: str, remedy: str) -> ClusterCheck:
    return ClusterCheck(
        cluster="",
        subject=f"registry {prefix}",
        is_well=not remedy,
        message=message,
        remedy=remedy,
    )
