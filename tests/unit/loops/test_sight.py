"""What is remembered from look to look: since when a gang has stood at its step."""

from broker.loops.sight import Sight
from broker.model.run import Progress
from tests.builders import Story, make_moment
from tests.unit.loops.seeing import CLUSTER, NOW, epoch_seen, observation, report


def at(after_s: float, step: int) -> Progress:
    moment = make_moment(NOW.elapsed_s + after_s)
    return Progress(epoch=1, step=step, loss=None, at_s=moment.elapsed_s, at_wall_s=moment.wall_s)


def test_a_step_is_as_old_as_its_first_sight_though_it_is_seen_again_or_nothing_is() -> None:
    story = Story()
    story.now = make_moment(NOW.elapsed_s)
    run = story.accepted().training().run
    fifth = observation((), [epoch_seen(run, reports=(report(0, step=5), report(1, step=4)))])
    sixth = observation((), [epoch_seen(run, reports=(report(0, step=6),))])
    unread = observation((), [], is_store_readable=False)
    sight = Sight([(CLUSTER, CLUSTER)])

    moments = [make_moment(NOW.elapsed_s + 10.0 * n) for n in range(7)]
    sight.saw(fifth, moments[0], ())
    assert sight.progress(run) == at(0.0, 5)
    sight.saw(fifth, moments[1], ())
    assert sight.progress(run) == at(0.0, 5)
    sight.saw(unread, moments[2], ())
    assert sight.progress(run) == at(0.0, 5)
    sight.heard_nothing(CLUSTER, None, moments[3], ())
    assert sight.progress(run) == at(0.0, 5)
    # Its store alone tells of the next one, and then its cluster is back with the same.
    sight.heard_nothing(CLUSTER, sixth, moments[4], ())
    assert sight.progress(run) == at(40.0, 6)
    sight.saw(sixth, moments[5], ())
    assert sight.progress(run) == at(40.0, 6)
    # A report that is there no more takes none of it back.
    sight.saw(fifth, moments[6], ())
    shown = sight.progress(run)
    assert shown is not None
    assert shown.at_s == moments[4].elapsed_s


def test_what_the_log_knows_of_a_step_is_older_than_a_first_sight_of_it() -> None:
    story = Story()
    story.now = make_moment(NOW.elapsed_s)
    run = story.accepted().training().trained(5).run
    sight = Sight([(CLUSTER, CLUSTER)])
    seen = observation((), [epoch_seen(run, reports=(report(0, step=5),))])
    sight.saw(seen, make_moment(NOW.elapsed_s + 600.0), ())
    assert sight.progress(run) == run.progress
