"""A run as it is shown: as logged, with the newest step that is known.

The rule: steps are thinned before they are logged, but whoever asks is told what whoever watches
sees; and a placement says its cluster's own word for where it stands, or for how it ended. Read
``shown`` first.
"""

from broker.model.names import placement_name
from broker.model.replacing import replace
from broker.model.run import Run
from broker.service.convert_capacity import word_message
from broker.service.convert_run import run_message
from broker.service.ports import Ports
from broker.v1 import run_pb2


def shown(ports: Ports, run: Run, *, is_whole: bool = True) -> run_pb2.Run:
    """Return a run on the wire; not ``is_whole`` leaves out placements and epochs that are over."""
    message = run_message(_at_its_newest_step(ports, run), ports.clock.now(), is_whole=is_whole)
    legs = {placement_name(run.name, one.id): one for one in run.live_placements}
    over = {placement_name(run.name, one.id): one.word for one in run.placements.values()}
    for placement in message.placements:
        leg = legs.get(placement.name)
        word = over[placement.name] if leg is None else ports.world.word(leg)
        if word is not None:
            placement.cluster_word.CopyFrom(word_message(word))
    leave_out_older_lines(message)
    return message


def leave_out_older_lines(message: run_pb2.Run) -> None:
    """Keep what a process printed last of the placement that ended last: an answer has a length."""
    spoke = [each for each in message.placements if each.cluster_word.last_lines]
    for placement in sorted(spoke, key=lambda each: each.state_time.ToNanoseconds())[:-1]:
        placement.cluster_word.ClearField("last_lines")


def _at_its_newest_step(ports: Ports, run: Run) -> Run:
    live, epoch = ports.live.progress(run.name), run.open_epoch
    if live is None or epoch is None or live.epoch != epoch.id.number:
        return run
    logged = run.progress
    is_newer = logged is None or (logged.epoch, logged.at_wall_s) < (live.epoch, live.at_wall_s)
    return replace(run, progress=live) if is_newer else run
