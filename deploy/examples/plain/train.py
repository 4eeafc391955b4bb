"""A training script that saves plain files: one process, the standard library, no GPU.

It fits a line by gradient descent. What is of interest is how little of it is about the broker:
where to resume, where to save, what to report, and when to leave. Run it anywhere:

    python3 train.py --steps 200

Stop it, run it again, and it goes on from `checkpoints/`; under the broker it goes on from the
checkpoint that its grant names.
"""

import argparse
import json
import random
import sys
import time

from broker.sdk import training


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--save-every", type=int, default=20)
    parser.add_argument("--step-seconds", type=float, default=0.0)
    options = parser.parse_args()

    with training.Job.from_env() as job:
        slope, offset, start = 0.0, 0.0, 0
        resume_dir = job.resume_dir(verify=True)
        if resume_dir is not None:
            saved = json.loads((resume_dir / "line.json").read_text())
            slope, offset, start = saved["slope"], saved["offset"], training.step_of(resume_dir)
        print(f"from step {start}", flush=True)

        for step in range(start + 1, options.steps + 1):
            draw = random.Random(step)  # what a step draws depends on its number alone
            x = draw.uniform(-1, 1)
            error = slope * x + offset - (3 * x - 1 + draw.gauss(0, 0.01))
            slope -= 0.1 * error * x
            offset -= 0.1 * error
            job.report(step, loss=error * error, samples=step)

            drain = job.drain()
            if drain is not None or step % options.save_every == 0 or step == options.steps:
                with job.saving(step) as part:
                    line = {"slope": slope, "offset": offset}
                    (part / "line.json").write_text(json.dumps(line))
            if drain is not None:
                job.acknowledge(step)
                job.stand_by()
                return training.EXIT_DRAINED
            time.sleep(options.step_seconds)

        print(f"y = {slope:.3f} x + {offset:.3f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
