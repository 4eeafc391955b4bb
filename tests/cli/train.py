"""A training that counts: STEPS steps, a checkpoint every tenth, its state the step itself."""

import os
import time

from broker.sdk import training

STEPS = int(os.environ.get("STEPS", "20"))
PAUSE_S = float(os.environ.get("PAUSE_S", "0.05"))
EVERY = 10

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
        drain = job.drain()
        if drain or step % EVERY == 0:
            with job.saving(step) as part, open(os.path.join(part, "step"), "w") as file:
                file.write(str(step))
        if drain:
            job.acknowledge(step)
            job.stand_by()
    print(f"ends after step {STEPS}", flush=True)
