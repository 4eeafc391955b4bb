"""A training that counts: STEPS steps, a checkpoint every tenth, its state the step itself.

Where MEETING names a directory that all ranks see, they meet there at each tenth step, and leave
together once one of them has heard a drain: a checkpoint is complete only with all of its parts.
"""

import os
import time
from pathlib import Path

from broker.sdk import training

STEPS = int(os.environ.get("STEPS", "20"))
PAUSE_S = float(os.environ.get("PAUSE_S", "0.05"))
MEETING = os.environ.get("MEETING", "")
EVERY = 10


def has_any_heard(job: training.Job, step: int) -> bool:
    """Whether a rank has heard a drain, once all are at this step."""
    has_heard = job.drain() is not None
    if not MEETING:
        return has_heard
    grant = job.grant
    here = f"{grant.epoch}-{step}"
    (Path(MEETING) / f"{here}-{grant.rank}-{has_heard}").touch()
    while len(said := [*Path(MEETING).glob(f"{here}-*")]) < grant.world_size:
        time.sleep(0.01)
    return any(one.name.endswith("-True") for one in said)


with training.Job.from_env() as job:
    folder = job.resume_dir()
    start = 0
    if folder is not None:
        with open(os.path.join(folder, "step")) as file:
            start = int(file.read())
    print(f"begins after step {start}", flush=True)
    for step in range(start + 1, STEPS + 1):
        time.sleep(PAUSE_S)
        job.report(step, loss=1.0 / step)
        if step % EVERY != 0:
            continue
        drain = has_any_heard(job, step)
        with job.saving(step) as part, open(os.path.join(part, "step"), "w") as file:
            file.write(str(step))
        if drain:
            job.acknowledge(step)
            job.stand_by()
    print(f"ends after step {STEPS}", flush=True)
