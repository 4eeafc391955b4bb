"""What the gangs of the bench run: it says when it began, then trains and saves. Standard library,
and the training library after the first word."""

import os
import sys
import time

BEGAN = time.monotonic()  # before anything else is imported: the command runs


def main() -> None:
    diary, seconds = sys.argv[1], float(sys.argv[2])
    with open(diary, "a") as file:
        file.write(f"{os.environ['BROKER_RUN']} {os.environ['BROKER_EPOCH']} {BEGAN}\n")
    from broker.sdk import training

    with training.Job.from_env() as job:
        resumed = job.resume_dir()
        step = 0 if resumed is None else training.step_of(resumed)
        while time.monotonic() - BEGAN < seconds:
            time.sleep(0.2)
            step += 1
            job.report(step)
            if step % 5 == 0:
                with job.saving(step) as part:
                    (part / f"rank-{job.grant.rank}").write_text(str(step))


if __name__ == "__main__":
    main()
