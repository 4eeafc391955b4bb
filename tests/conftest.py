"""What every test runs under: Hypothesis draws the same examples everywhere.

The rule it keeps: a run of the suite that fails can be repeated. `HYPOTHESIS_PROFILE=search` draws
new examples, and more of them, for who wants to look further.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "house",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "search",
    deadline=None,
    max_examples=2_000,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "house"))
