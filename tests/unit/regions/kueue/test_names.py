"""Names: DNS labels whatever the placement is called, never shared, and words kept whole."""

import re

from hypothesis import given
from hypothesis import strategies as st

from regions.kueue import names
from regions.launcher.layout import MAX_RANKS

DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
LABEL = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
placements = st.one_of(
    st.from_regex(r"[a-z0-9]{12}", fullmatch=True),
    st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._~-]{0,127}", fullmatch=True),
    st.text(max_size=200),
)


@given(placements)
def test_every_name_that_a_cluster_derives_is_a_dns_label(placement: str) -> None:
    jobset = names.jobset_name(placement)
    longest = names.pod_stem(jobset, MAX_RANKS - 1) + "-abcde"
    for name in (jobset, f"{jobset}-{names.GANG}-0", longest):
        assert DNS_1035.fullmatch(name)
        assert len(name) <= 63


@given(placements, placements)
def test_two_placements_never_share_a_name(one: str, other: str) -> None:
    assert (one == other) == (names.jobset_name(one) == names.jobset_name(other))


def test_a_digested_name_cannot_be_taken_by_a_plain_one() -> None:
    digested = names.jobset_name("A_strange~Name")
    assert names.jobset_name(digested[3:]) != digested


def test_the_brokers_own_ids_are_read_off_the_name() -> None:
    assert names.jobset_name("k3v9q0aa1b2c") == "cb-k3v9q0aa1b2c"
    assert names.master_address("cb-k3v9q0aa1b2c") == "cb-k3v9q0aa1b2c-g-0-0.cb-k3v9q0aa1b2c"


@given(st.text(max_size=300))
def test_whatever_is_told_becomes_a_label_value(text: str) -> None:
    value = names.label_value(text)
    assert LABEL.fullmatch(value)
    assert len(value) <= 63


@given(st.dictionaries(st.text(max_size=20), st.text(max_size=50), max_size=8))
def test_what_was_told_is_read_back_word_for_word(told: dict[str, str]) -> None:
    assert names.read_told({names.TOLD: names.told_annotation(told)}) == told


@given(st.one_of(st.text(max_size=200), st.just("[" * 60_000), st.just('{"a":' * 9000)))
def test_an_annotation_of_others_is_read_as_nothing_and_never_raises(text: str) -> None:
    assert all(isinstance(value, str) for value in names.read_told({names.TOLD: text}).values())


def test_labels_name_team_owner_run_placement_and_capacity_type() -> None:
    told = {
        "team": "vision",
        "owner": "Ada L. <ada@example.org>",
        "run": "teams/vision/runs/one",
        "capacity_type": "SPOT",
        "log": "a" * 80,
        "placement": "another",
    }
    found = names.labels(told, placement="p1", run_key="run1")
    assert found[names.TEAM] == "vision"
    assert found[names.RUN] == "one"
    assert found[names.PLACEMENT] == "p1"
    assert found[names.RUN_KEY] == "run1"
    assert found[names.CAPACITY_TYPE] == "SPOT"
    assert found[names.OWNER].startswith("ada-l-ada-example-org-")
    assert found.items() >= names.selector("p1").items()
    # A pod is of a JobSet that says more: of it there are many, and each is written many times.
    pods = names.pod_labels(told, placement="p1")
    assert found == pods | {names.LOG: names.label_value("a" * 80), names.RUN_KEY: "run1"}
    assert pods.keys() == {
        *(names.TEAM, names.OWNER, names.RUN, names.PLACEMENT, names.CAPACITY_TYPE),
        names.MANAGED_BY,
    }


@given(placements)
def test_the_meeting_port_is_none_that_a_kernel_or_a_cluster_gives_out(placement: str) -> None:
    assert 20_000 <= names.master_port(placement) < 30_000
