"""One question to a Google API over gRPC, and what its failure means (imports Google's client).

The rule: everything has a deadline, and no question is asked again in here: who asked
decides. Read ``ask``.
"""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from google.api_core import exceptions
from google.auth.exceptions import GoogleAuthError

from regions.gcp.errors import AccessError, BusyError, GoogleError, RefusedError, SilentError

T = TypeVar("T")

_SILENT = (exceptions.DeadlineExceeded, exceptions.GatewayTimeout, exceptions.RetryError)
_DENIED = (exceptions.Unauthorized, exceptions.Forbidden)
_BUSY = (exceptions.TooManyRequests, exceptions.ServerError, exceptions.Aborted)
_NEVER = (exceptions.MethodNotImplemented, exceptions.DataLoss)


async def ask(answer: Awaitable[T], within_s: float) -> T:
    """Wait for an answer. Raises GoogleError."""
    try:
        async with asyncio.timeout(within_s):
            return await answer
    except TimeoutError as error:
        raise SilentError(f"no answer within {within_s:g} s") from error
    except exceptions.GoogleAPIError as error:
        raise _meant(error) from error
    except GoogleAuthError as error:
        raise AccessError("the credentials could not be renewed") from error


def _meant(error: exceptions.GoogleAPIError) -> GoogleError:
    words = str(getattr(error, "message", "") or error)[:500]
    if isinstance(error, _SILENT):
        return SilentError(words)
    if isinstance(error, _DENIED):
        return AccessError(words)
    if isinstance(error, _BUSY) and not isinstance(error, _NEVER):
        return BusyError(words)
    return RefusedError(words)
