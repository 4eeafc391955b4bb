"""The launcher's own exit statuses: what a person sees who looks at a pod, not at the store.

The rule: a command's exit code is passed on as it is (128 + n for signal n); the launcher's own
reasons have codes that training code does not use. The end report says the same, in words.
"""

from __future__ import annotations

from typing import Optional

from regions.launcher.rules import Cause

BAD_CONFIGURATION = 85
OF_CAUSE = {
    Cause.GATE_TIMEOUT: 80,
    Cause.NOT_LISTED: 81,
    Cause.REVOKED: 82,
    Cause.FENCED: 83,
    Cause.BUNDLE_BAD: 84,
    Cause.WITHDRAWN: 86,
    Cause.PREEMPTED: 87,
    Cause.MISMATCH: 88,
    Cause.DRAINED: 89,
    Cause.CHECKPOINT_BAD: 90,
    Cause.CANNOT_RUN: 127,
}


def exit_status(cause: Cause, exit_code: Optional[int], signal: Optional[int]) -> int:
    """Return the launcher's exit status for how a process ended."""
    if cause is not Cause.COMMAND:
        return OF_CAUSE[cause]
    if signal is not None:
        return 128 + signal
    return exit_code or 0
