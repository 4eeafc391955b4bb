"""The line and the agenda: stale entries never come up, and none is lost."""

from hypothesis import given
from hypothesis import strategies as st

from broker.placement.line import Agenda, Line

MOVES = st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(-1, 4)), max_size=120)


@given(MOVES)
def test_a_line_is_its_members_in_order_of_rank(moves: list[tuple[str, int]]) -> None:
    line = Line()
    members: dict[str, tuple[int, float, str]] = {}
    for name, age in moves:
        if age < 0:
            line.remove(name)
            members.pop(name, None)
        else:
            members[name] = (0, float(age), name)
            line.add(members[name])
    if members:
        assert line.head() == min(members.values())[2]
    assert line.first(10) == tuple(sorted(members.values()))
    assert line.first(2) == tuple(sorted(members.values())[:2])
    assert (len(line), all(name in line for name in members)) == (len(members), True)


@given(MOVES, st.integers(0, 5))
def test_an_agenda_names_what_is_due_by_the_last_word(
    moves: list[tuple[str, int]], now_s: int
) -> None:
    agenda = Agenda()
    times: dict[str, float] = {}
    for name, at_s in moves:
        if at_s < 0:
            agenda.drop(name)
            times.pop(name, None)
        else:
            times[name] = float(at_s)
            agenda.set(name, float(at_s))
    due = sorted((at_s, name) for name, at_s in times.items() if at_s <= now_s)
    assert agenda.due(float(now_s), 10) == tuple(name for _, name in due)
    assert agenda.next_s() == min(times.values(), default=None)
