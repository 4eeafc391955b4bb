"""A run as it is shown: as logged, with the newest step that is known.

The rule: steps are thinned before they are logged, but whoever asks is told what whoever watches
sees. Read ``shown`` first.
"""

from broker.model.replacing import replace
from broker.model.run import Run
from broker.service.convert_run import run_message
from broker.service.ports import Ports
from broker.v1 import run_pb2


def shown(ports: Ports, run: Run, *, is_whole: bool = True) -> run_pb2.Run:
    """Return a run on the wire; not ``is_whole`` leaves out placements and epochs that are over."""
    return run_message(_at_its_newest_step(ports, run), ports.clock.now(), is_whole=is_whole)


def _at_its_newest_step(ports: Ports, run: Run) -> Run:
    live, epoch = ports.live.progress(run.name), run.open_epoch
    if live is None or epoch is None or live.epoch != epoch.id.number:
        return run
    logged = run.progress
    is_newer = logged is None or (logged.epoch, logged.at_wall_s) < (live.epoch, live.at_wall_s)
    return replace(run, progress=live) if is_newer else run
