"""When a call is made again.

The rule: only what does nothing twice, only after an error that may pass, and only for as long as
the client was told to wait; after that the last error goes to the caller. The pauses grow and are
drawn, so that many clients do not come back at once. Read ``policy`` first.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from broker.sdk.calls import Method
from broker.sdk.errors import BrokerError

if TYPE_CHECKING:
    from tenacity import RetryCallState

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 2.0

OnRetry = Callable[[BrokerError], None]


def may_repeat(method: Method[Any, Any], error: BrokerError) -> bool:
    """Whether the same call may be made again after this error."""
    return method.is_repeatable and error.is_temporary


def policy(
    method: Method[Any, Any], retry_for_s: float, on_retry: OnRetry | None
) -> dict[str, Any]:
    """Return tenacity's arguments, the same for plain and asynchronous retrying."""
    # Only a failure needs tenacity: a start without one is spared its import.
    import tenacity

    def is_worth_it(error: BaseException) -> bool:
        return isinstance(error, BrokerError) and may_repeat(method, error)

    def tell(state: "RetryCallState") -> None:
        error = state.outcome.exception() if state.outcome is not None else None
        if on_retry is not None and isinstance(error, BrokerError):
            on_retry(error)

    return {
        "retry": tenacity.retry_if_exception(is_worth_it),
        "stop": tenacity.stop_before_delay(retry_for_s),
        "wait": tenacity.wait_random_exponential(multiplier=FIRST_PAUSE_S, max=LONGEST_PAUSE_S),
        "before_sleep": tell,
        "reraise": True,
    }
