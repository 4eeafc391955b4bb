"""What a look at everything finds, each trouble told once."""

import pytest

from broker.cli.upkeep import warnings_of


@pytest.mark.parametrize(
    ("warnings", "told"),
    [
        ([], []),
        (["the log cannot be written: disk full"], ["the log cannot be written: disk full"]),
        (["regions/us-east4 does not answer", "regions/us-east4: job/x is of no run"], []),
        (["the placer fails", "regions/mars does not answer"], ["the placer fails"]),
    ],
)
def test_what_a_region_says_of_itself_is_not_told_of_the_broker_too(
    warnings: list[str], told: list[str]
) -> None:
    assert warnings_of(warnings) == told
