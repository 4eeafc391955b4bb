"""Ids: what one is, and that a refusal says so."""

from __future__ import annotations

import pytest

from broker.model import names


@pytest.mark.parametrize("run", ["Line_X", "9lives", "a" * 41, "ends-"])
def test_a_name_that_is_refused_says_what_an_id_is(run: str) -> None:
    with pytest.raises(names.NameMalformedError, match="letter first"):
        names.run_name("team", run)
    with pytest.raises(names.NameMalformedError, match="letter first"):
        names.parse_run(f"teams/team/runs/{run}")
