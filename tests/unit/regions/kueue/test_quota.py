"""Quota through the cohort tree: cases worked out by hand, and laws over drawn trees."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regions.kueue.objects.cluster_queue import ClusterQueue
from regions.kueue.objects.cohort import Cohort
from regions.kueue.objects.kinds import CLUSTER_QUEUES, COHORTS, decode
from regions.kueue.quota import Standing, Tree
from tests.unit.regions.kueue import kube

GPU = "nvidia.com/gpu"


def queue(
    name: str,
    nominal: int,
    reserved: int | None = 0,
    *,
    cohort: str = "",
    borrow: int | None = None,
    lend: int | None = None,
    used: int | None = None,
) -> ClusterQueue:
    quota = {"nominalQuota": nominal, "borrowingLimit": borrow, "lendingLimit": lend}
    raw = kube.cluster_queue(
        name,
        cohort=cohort,
        quotas={"spot": quota},
        reserved=None if reserved is None else {"spot": reserved},
        used=None if reserved is None else {"spot": reserved if used is None else used},
    )
    found = decode(CLUSTER_QUEUES, "v1beta2", raw)
    assert isinstance(found, ClusterQueue), found
    return found


def cohort(
    name: str,
    parent: str = "",
    nominal: int = 0,
    *,
    borrow: int | None = None,
    lend: int | None = None,
) -> Cohort:
    quota = {"nominalQuota": nominal, "borrowingLimit": borrow, "lendingLimit": lend}
    raw = {
        "metadata": kube.meta(name),
        "spec": {"parentName": parent, "resourceGroups": kube.groups({"spot": quota})},
    }
    found = decode(COHORTS, "v1beta2", raw)
    assert isinstance(found, Cohort), found
    return found


def standing(name: str, *nodes: ClusterQueue | Cohort, is_whole: bool = True) -> Standing:
    queues = [each for each in nodes if isinstance(each, ClusterQueue)]
    cohorts = [each for each in nodes if isinstance(each, Cohort)]
    found = Tree(queues, cohorts, is_whole=is_whole).standing(name, "spot", GPU)
    assert found is not None
    return found


def free(name: str, *nodes: ClusterQueue | Cohort) -> tuple[int | None, int | None, int | None]:
    found = standing(name, *nodes)
    return found.free, found.borrowable, found.most


def test_a_queue_by_itself_has_what_it_does_not_hold() -> None:
    assert standing("a", queue("a", 16, 10, used=4)) == Standing(
        nominal=16, reserved=10, used=4, parked=6, free=6, borrowable=0, most=16
    )


def test_a_queue_in_debt_has_nothing() -> None:
    assert free("a", queue("a", 8, 12)) == (0, 4, 8)


@pytest.mark.parametrize(
    ("says", "nodes", "found"),
    [
        (
            "what others in the cohort leave can be borrowed",
            [queue("a", 8, 8, cohort="c"), queue("b", 8, 2, cohort="c")],
            (6, 6, 16),
        ),
        (
            "as far as the borrowing limit goes",
            [queue("a", 8, 8, cohort="c", borrow=4), queue("b", 8, 2, cohort="c")],
            (4, 4, 12),
        ),
        (
            "of which what is borrowed already is a part",
            [queue("a", 8, 11, cohort="c", borrow=4), queue("b", 8, 2, cohort="c")],
            (1, 4, 12),
        ),
        (
            "and not what a lending limit keeps at home",
            [queue("a", 8, 8, cohort="c"), queue("b", 8, 0, cohort="c", lend=3)],
            (3, 3, 11),
        ),
        (
            "which its owner uses first",
            [queue("a", 8, 8, cohort="c"), queue("b", 8, 5, cohort="c", lend=3)],
            (3, 3, 11),
        ),
        (
            "what was lent is away until it is given back",
            [queue("a", 8, 2, cohort="c"), queue("b", 8, 13, cohort="c")],
            (1, 0, 16),
        ),
        (
            "but what a queue keeps cannot be lent away",
            [queue("a", 8, 2, cohort="c", lend=0), queue("b", 8, 8, cohort="c")],
            (6, 0, 16),
        ),
        (
            "a cohort's own quota is for whoever comes first",
            [queue("a", 0, 0, cohort="c"), cohort("c", nominal=5)],
            (5, 5, 5),
        ),
        (
            "one goes up the tree, past a parent that lends",
            [
                queue("a", 4, 4, cohort="left"),
                queue("b", 8, 1, cohort="right"),
                cohort("left", "top"),
                cohort("right", "top", lend=6),
            ],
            (6, 6, 10),
        ),
        (
            "as far as the parent may borrow",
            [
                queue("a", 4, 4, cohort="left"),
                queue("b", 8, 1, cohort="right"),
                cohort("left", "top", borrow=2),
                cohort("right", "top"),
            ],
            (2, 2, 6),
        ),
        (
            "cohorts that nobody wrote down are only names",
            [
                queue("a", 4, 4, cohort="left"),
                queue("b", 8, 1, cohort="right"),
                cohort("left", "x"),
            ],
            (0, 0, 4),
        ),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_through_the_tree(
    says: str, nodes: list[ClusterQueue | Cohort], found: tuple[int, int, int]
) -> None:
    assert free("a", *nodes) == found, says


def test_a_circle_of_cohorts_is_found_and_nothing_is_made_of_it() -> None:
    nodes = [queue("a", 8, 2, cohort="x"), queue("b", 8, 2)]
    cohorts = [cohort("x", "y"), cohort("y", "x")]
    tree = Tree(nodes, cohorts)
    assert tree.in_circles() == {"a"}
    assert tree.standing("a", "spot", GPU) == Standing(
        nominal=8, reserved=2, used=2, parked=0, free=None, borrowable=None, most=None
    )
    assert tree.standing("b", "spot", GPU) == standing("b", nodes[1])


def test_cohorts_that_go_up_without_an_end_are_no_tree() -> None:
    tower = [cohort(f"x{at}", f"x{at + 1}") for at in range(5_000)]
    tree = Tree([queue("a", 8, 2, cohort="x0"), queue("b", 8, 2, cohort="x5000")], tower)
    assert tree.in_circles() == {"a"}
    found = [tree.standing(each, "spot", GPU) for each in "ab"]
    assert [each.free if each is not None else 0 for each in found] == [None, 6]


def test_what_was_not_seen_is_not_nothing() -> None:
    blind = standing("a", queue("a", 8, None))
    assert blind == Standing(
        nominal=8, reserved=None, used=None, parked=None, free=None, borrowable=None, most=8
    )
    beside = standing("a", queue("a", 8, 2, cohort="c"), queue("b", 8, None, cohort="c"))
    assert (beside.reserved, beside.free, beside.most) == (2, None, 16)
    assert standing("a", queue("a", 8, 2, cohort="c"), is_whole=False).free is None
    assert standing("a", queue("a", 8, 2), is_whole=False).free == 6


def test_a_flavor_that_a_queue_does_not_have_has_no_standing() -> None:
    tree = Tree([queue("a", 8)], [])
    assert tree.standing("a", "flex", GPU) is None
    assert tree.standing("a", "spot", "cpu") is None
    assert tree.standing("b", "spot", GPU) is None


# ---- laws ----

SMALL = st.integers(0, 12)
LIMIT = st.none() | SMALL
COHORTS_DRAWN = st.tuples(
    st.builds(cohort, st.just("top"), st.just(""), SMALL),
    st.builds(
        cohort, st.just("left"), st.sampled_from(["", "top"]), SMALL, borrow=LIMIT, lend=LIMIT
    ),
    st.builds(
        cohort, st.just("right"), st.sampled_from(["top", "left"]), SMALL, borrow=LIMIT, lend=LIMIT
    ),
)
QUEUES_DRAWN = st.lists(
    st.tuples(SMALL, SMALL, st.sampled_from(["", "top", "left", "right"]), LIMIT, LIMIT),
    min_size=1,
    max_size=4,
).map(
    lambda drawn: [
        # Limits are only legal within a cohort.
        queue(f"q{at}", nominal, held, cohort=where, borrow=borrow, lend=lend)
        if where
        else queue(f"q{at}", nominal, held)
        for at, (nominal, held, where, borrow, lend) in enumerate(drawn)
    ]
)


def in_tree(queues: list[ClusterQueue], cohorts: tuple[Cohort, ...], name: str) -> Standing:
    found = Tree(queues, cohorts).standing(name, "spot", GPU)
    assert found is not None
    return found


def holding(each: ClusterQueue, more: int) -> ClusterQueue:
    assert each.reservation is not None
    held = each.reservation[("spot", GPU)] + more
    return dataclasses.replace(each, reservation={("spot", GPU): held})


@given(QUEUES_DRAWN, COHORTS_DRAWN)
def test_free_is_never_negative_and_never_beyond_any_limit(
    queues: list[ClusterQueue], cohorts: tuple[Cohort, ...]
) -> None:
    everything = sum(
        quota.nominal
        for groups in (*(each.groups for each in queues), *(each.groups for each in cohorts))
        for group in groups
        for each in group.flavors
        for quota in each.quotas.values()
    )
    for each in queues:
        found = in_tree(queues, cohorts, each.meta.name)
        assert found.free is not None
        assert found.reserved is not None
        assert found.borrowable is not None
        assert found.most is not None
        assert 0 <= found.free <= found.most <= everything
        assert found.free <= max(0, found.nominal + found.borrowable - found.reserved)
        limit = each.groups[0].flavors[0].quotas[GPU].borrowing_limit
        if limit is not None and found.free:
            assert found.reserved + found.free <= found.nominal + limit


@given(QUEUES_DRAWN, COHORTS_DRAWN, st.data())
def test_reserving_what_is_free_leaves_that_much_less_and_not_one_more_fits(
    queues: list[ClusterQueue], cohorts: tuple[Cohort, ...], data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(queues) - 1))
    name = queues[at].meta.name
    before = in_tree(queues, cohorts, name)
    assert before.free is not None
    taken = data.draw(st.integers(0, before.free))
    queues[at] = holding(queues[at], taken)
    after = in_tree(queues, cohorts, name)
    assert after.free == before.free - taken
    assert after.most == before.most


@given(QUEUES_DRAWN, COHORTS_DRAWN, st.data())
def test_what_others_take_never_makes_more_free(
    queues: list[ClusterQueue], cohorts: tuple[Cohort, ...], data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(queues) - 1))
    more = list(queues)
    more[at] = holding(more[at], data.draw(st.integers(1, 5)))
    for each in queues:
        before = in_tree(queues, cohorts, each.meta.name).free
        after = in_tree(more, cohorts, each.meta.name).free
        assert before is not None
        assert after is not None
        assert after <= before


@given(QUEUES_DRAWN, COHORTS_DRAWN, st.data())
def test_more_quota_anywhere_never_makes_less_free(
    queues: list[ClusterQueue], cohorts: tuple[Cohort, ...], data: st.DataObject
) -> None:
    more = list(queues)
    at = data.draw(st.integers(0, len(queues) - 1))
    each = queues[at]
    quota = each.groups[0].flavors[0].quotas[GPU]
    more[at] = queue(
        each.meta.name,
        quota.nominal + data.draw(st.integers(1, 5)),
        (each.reservation or {})[("spot", GPU)],
        cohort=each.cohort,
        borrow=quota.borrowing_limit,
        lend=quota.lending_limit,
    )
    for one in queues:
        before = in_tree(queues, cohorts, one.meta.name).free
        after = in_tree(more, cohorts, one.meta.name).free
        assert before is not None
        assert after is not None
        assert after >= before
