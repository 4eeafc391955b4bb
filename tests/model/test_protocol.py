"""The start protocol holds in every state within the bounds, and each of its rules is needed."""

import pytest

from tests.model import rules
from tests.model.bounds import SMALL, WEAKENED
from tests.model.explore import explore
from tests.model.rules import PRODUCTION


@pytest.mark.parametrize("name", sorted(SMALL))
def test_no_move_breaks_a_law(name: str) -> None:
    outcome = explore(SMALL[name], PRODUCTION)
    assert outcome.violation is None, f"\n{outcome.violation}"


@pytest.mark.parametrize("name", sorted(WEAKENED))
def test_without_the_rule_a_law_is_broken(name: str) -> None:
    bounds, law = WEAKENED[name]
    weakened = {
        "B2": rules.without_b2,
        "B3": rules.without_b3,
        "L1": rules.without_l1,
        "L2": rules.without_l2,
        "L3": rules.without_l3,
        "R1": rules.without_r1,
        "R2": rules.without_r2,
        "R1 for what is garbled": rules.without_garbled,
        "R1's margin": rules.without_margin,
        "owners by number": rules.with_owners_by_nonce,
    }[name]()
    violation = explore(bounds, weakened).violation
    assert violation is not None, f"without {name} nothing is found: the search is blind to it"
    assert violation.law.startswith(law), f"\n{violation}"
