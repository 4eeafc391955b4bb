"""What can go wrong between us and a cluster's API.

ClusterError
  SilentError        no answer within its deadline, or the connection broke
  AccessError        no credentials to ask with
  BrokenError        an answer that is none: cut short, too long, no JSON
  RefusedError       the server answered with an error; ``status`` is its HTTP status
    UnauthorizedError  401: it does not know us, or not any more
    ForbiddenError     403: it knows us, and we may not
    MissingError       404: no such object, or no such kind
    ConflictError      409: the object is another than the one that was meant
    ExpiredError       410: what we knew is too old to go on from
"""


class ClusterError(Exception):
    """A question to a cluster that got no answer, or not the one that was asked for."""


class SilentError(ClusterError):
    """Nothing came within the deadline, or the connection broke. It says nothing else."""


class AccessError(ClusterError):
    """The credentials cannot be read, or what makes them failed."""


class BrokenError(ClusterError):
    """The answer cannot be one: it was cut short, is too long, or is no JSON."""


class RefusedError(ClusterError):
    """The server answered with an error, in its own words.

    ``retry_after_s`` is when it wants to be asked again, None when it does not say.
    """

    def __init__(
        self, status: int, reason: str, message: str, retry_after_s: float | None = None
    ) -> None:
        super().__init__(f"{message or reason or 'refused'} ({status})")
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after_s = retry_after_s


class UnauthorizedError(RefusedError):
    """The server does not know who asks, or not any more."""


class ForbiddenError(RefusedError):
    """The server knows who asks, who may not do that."""


class MissingError(RefusedError):
    """There is no such object, or no such kind."""


class ConflictError(RefusedError):
    """The object is there already, or is another than the one that was meant."""


class ExpiredError(RefusedError):
    """What was known is too old to go on from; all has to be listed anew."""


_BY_STATUS: dict[int, type[RefusedError]] = {
    401: UnauthorizedError,
    403: ForbiddenError,
    404: MissingError,
    409: ConflictError,
    410: ExpiredError,
}


def refusal(
    status: int, reason: str = "", message: str = "", retry_after_s: float | None = None
) -> RefusedError:
    """Return the error of an HTTP status."""
    return _BY_STATUS.get(status, RefusedError)(status, reason, message[:1024], retry_after_s)
