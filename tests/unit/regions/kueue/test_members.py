"""A process of a gang is gone on positive evidence only, and then for ever."""

from dataclasses import replace
from typing import Any

import pytest

from regions.cluster import MemberSeen
from regions.kueue import names
from regions.kueue.members import OUT_OF_SERVICE, Member, Members
from regions.kueue.objects.kinds import Unreadable
from regions.kueue.objects.node import Node
from regions.kueue.objects.pod import Pod
from regions.kueue.objects.taints import Taint
from regions.kueue.snapshot import Seen
from tests.unit.regions.kueue.tellings import NOW_S, ended, make_node, make_pod, said

OURS = "training"
GANG = "uid-of-gang"


def member(pod: Pod, rank: int = 0, uid: str = "") -> Pod:
    """The pod as one of our gang's, as JobSet and the Job controller mark it."""
    meta = replace(
        pod.meta,
        namespace=OURS,
        uid=uid or f"uid-{rank}",
        labels={names.MANAGED_BY: names.MANAGER, names.GANG_UID: GANG},
        annotations={names.RANK_ANNOTATION: str(rank)},
    )
    return replace(pod, meta=meta)


def known(*found: Any, **changes: Any) -> Seen[Any]:
    """What is known of a kind, all of it."""
    objects = {each.meta.name if isinstance(each, Node) else each.meta.key: each for each in found}
    seen: Seen[Any] = Seen(
        objects=objects, unreadable={}, is_known=True, is_everywhere=True, trouble=""
    )
    return replace(seen, **changes)


def silent() -> Node:
    """A node whose kubelet is not heard of: it is not known whether it is ready."""
    return make_node(conditions=(replace(said("Ready"), status=None),))


class Story:
    """Looks one after the other; each says what is there then."""

    def __init__(self) -> None:
        self.members = Members()

    def see(self, pods: Seen[Pod], nodes: Seen[Node]) -> frozenset[str]:
        self.members.look(pods, nodes, OURS, NOW_S)
        return self.members.gone


def test_a_process_that_ended_is_gone_with_its_code() -> None:
    story = Story()
    assert story.see(known(member(make_pod())), known(make_node())) == frozenset()
    assert story.see(known(member(ended(3))), known(make_node())) == {"uid-0"}
    assert [each.seen() for each in story.members.of(GANG)] == [
        MemberSeen(rank=0, member="uid-0", is_alive=False, exit_code=3, signal=None)
    ]


def test_a_pod_that_its_working_node_let_go_is_gone() -> None:
    story = Story()
    story.see(known(member(make_pod())), known(make_node()))
    assert story.see(known(), known(make_node())) == {"uid-0"}


def test_a_pod_that_was_removed_by_force_from_a_silent_node_may_run_on() -> None:
    story = Story()
    story.see(known(member(make_pod())), known(make_node()))
    assert story.see(known(), known(silent())) == frozenset()
    assert story.see(known(), known(silent())) == frozenset()
    # The node is back, and does not run what it was not told to.
    assert story.see(known(), known(make_node())) == {"uid-0"}


@pytest.mark.parametrize(
    "then",
    [
        pytest.param((), id="its node is gone"),
        pytest.param((replace(make_node(), meta=replace(make_node().meta, uid="new")),), id="anew"),
        pytest.param(
            (
                replace(
                    silent(), taints=(Taint(key=OUT_OF_SERVICE, value="x", effect="NoExecute"),)
                ),
            ),
            id="operators vouch that it is off",
        ),
    ],
)
def test_what_became_of_its_node_decides(then: tuple[Node, ...]) -> None:
    story = Story()
    story.see(known(member(make_pod())), known(make_node()))
    assert story.see(known(), known(*then)) == {"uid-0"}


def test_a_pod_whose_node_is_gone_is_gone_although_nobody_says_so_yet() -> None:
    story = Story()
    pod = member(make_pod())
    story.see(known(pod), known(make_node()))
    assert story.see(known(pod), known()) == {"uid-0"}


def test_a_node_that_was_never_seen_is_not_missed() -> None:
    # Two watches are never of one moment: a new node's pod can be heard of before the node.
    story = Story()
    assert story.see(known(member(make_pod())), known()) == frozenset()


@pytest.mark.parametrize(
    "pods",
    [
        pytest.param(known(is_known=False), id="pods cannot be seen"),
        pytest.param(
            known(unreadable={"x": Unreadable(key="x", uid="uid-0", reason="odd")}), id="by uid"
        ),
        pytest.param(
            known(
                unreadable={
                    make_pod().meta.key: Unreadable(key=make_pod().meta.key, uid="", reason="odd")
                }
            ),
            id="by name",
        ),
    ],
)
def test_what_cannot_be_seen_is_not_gone(pods: Seen[Pod]) -> None:
    story = Story()
    story.see(known(member(make_pod())), known(make_node()))
    assert story.see(pods, known(make_node())) == frozenset()
    assert [each.is_alive for each in story.members.of(GANG)] == [True]


def test_nodes_that_cannot_be_seen_end_nobody() -> None:
    story = Story()
    pod = member(make_pod())
    story.see(known(pod), known(make_node()))
    assert story.see(known(pod), known(is_known=False)) == frozenset()


@pytest.mark.parametrize("marks", [{"labels": {}}, {"annotations": {}}])
def test_a_process_whose_marks_were_taken_off_is_not_gone(marks: dict[str, Any]) -> None:
    story = Story()
    story.see(known(member(make_pod())), known(make_node()))
    bare = replace(member(make_pod()), meta=replace(member(make_pod()).meta, **marks))
    assert story.see(known(bare), known(make_node())) == frozenset()
    over = replace(member(ended(3)), meta=bare.meta)
    assert story.see(known(over), known(make_node())) == {"uid-0"}
    assert [(one.rank, one.exit_code) for one in story.members.of(GANG)] == [(0, 3)]


@pytest.mark.parametrize(
    ("nodes", "gone"),
    [
        pytest.param(known(is_known=False), set(), id="not seen just now"),
        pytest.param(known(is_known=False, is_denied=True), {"uid-0"}, id="not ours to see"),
        pytest.param(
            known(make_node(), is_known=False, is_denied=True), set(), id="denied of a sudden"
        ),
    ],
)
def test_a_node_that_will_be_seen_again_is_waited_for(nodes: Seen[Node], gone: set[str]) -> None:
    story = Story()
    story.see(known(member(make_pod())), known(make_node()))
    assert story.see(known(), nodes) == gone


def recalled(node: str = "node-0") -> Member:
    """What a store tells of rank 0 of the gang."""
    return Member(
        uid="uid-0",
        key="",
        gang=GANG,
        rank=0,
        node=node,
        node_uid="",
        created_s=0.0,
        bound_s=None,
        is_unsought=True,
    )


@pytest.mark.parametrize(
    ("nodes", "gone"),
    [
        pytest.param(known(make_node()), {"uid-0"}, id="its node works, and does not run it"),
        pytest.param(known(), {"uid-0"}, id="its node is gone"),
        pytest.param(known(silent()), set(), id="its node is silent"),
        pytest.param(known(is_known=False), set(), id="nodes are not seen yet"),
    ],
)
def test_whom_only_a_store_knows_is_gone_when_asked_for_and_by_its_nodes_word(
    nodes: Seen[Node], gone: set[str]
) -> None:
    story = Story()
    story.members.recall(recalled())
    assert story.see(known(), nodes) == set()  # a watch may be late: it was not asked for yet
    story.members.miss(["uid-0", "uid-9"])
    assert story.see(known(), nodes) == gone


def test_whom_a_store_tells_of_and_whose_pod_comes_is_as_any_other() -> None:
    story = Story()
    story.members.recall(recalled("elsewhere"))
    story.see(known(member(make_pod())), known(make_node()))
    assert [(one.node, one.is_unsought) for one in story.members.of(GANG)] == [("node-0", False)]
    story.members.recall(recalled("elsewhere"))
    story.members.miss(["uid-0"])
    assert story.see(known(member(make_pod())), known(make_node())) == set()


def test_once_gone_is_gone_for_ever() -> None:
    story = Story()
    pod = member(make_pod())
    story.see(known(pod), known(make_node()))
    story.see(known(), known(make_node()))
    assert story.see(known(pod), known(make_node())) == {"uid-0"}
    assert [each.is_alive for each in story.members.of(GANG)] == [False]


def test_a_gang_that_was_made_again_has_its_former_members_first() -> None:
    story = Story()
    first = member(make_pod(), 0, "first")
    first = replace(first, meta=replace(first.meta, created_s=NOW_S - 100))
    story.see(known(first), known(make_node()))
    second = member(make_pod(), 0, "second")
    second = replace(second, meta=replace(second.meta, name="x-second", created_s=NOW_S - 1))
    story.see(known(second), known(make_node()))
    seen = [(each.uid, each.is_alive) for each in story.members.of(GANG)]
    assert seen == [("first", False), ("second", True)]


def test_pods_of_others_and_without_a_rank_or_a_node_are_no_members() -> None:
    ours = member(make_pod())
    others = [
        replace(ours, meta=replace(ours.meta, namespace="other", uid="a")),
        replace(ours, meta=replace(ours.meta, labels={names.GANG_UID: GANG}, uid="b", name="b")),
        replace(ours, meta=replace(ours.meta, annotations={}, uid="c", name="c")),
        replace(ours, node="", meta=replace(ours.meta, uid="d", name="d")),
    ]
    story = Story()
    story.see(known(*others), known(make_node()))
    assert story.members.of(GANG) == ()
