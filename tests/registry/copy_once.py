"""One copy in a process of its own, which is measured and killed: ``python -m`` this with

    MODE SOURCE REPOSITORY DESTINATION REPOSITORY DIGEST ...

It copies one after the other, and prints how far it is, what it did, and the memory that it took:
one JSON object a line. A small image before a large one shows what all that is loaded takes.
"""

import asyncio
import json
import re
import sys
from pathlib import Path

from replicator.oci.copies import Place, Progress
from replicator.oci.copying import Copier
from replicator.oci.login import nobody
from replicator.oci.registry import Endpoint, Registry, UploadMode
from replicator.oci.wire import Bounds, open_wire


async def main(mode: str, *places: str) -> None:
    source, here, destination, there, *digests = places
    async with open_wire(Bounds()) as wire, Copier(max_parallel=4) as copier:

        def place(name: str, repository: str) -> Place:
            endpoint = Endpoint(
                name=name, login=nobody, upload_mode=UploadMode(mode), is_plain=True
            )
            return Place(registry=Registry(endpoint, wire), repository=repository)

        pair = place(source, here), place(destination, there)
        for digest in digests:
            progress = Progress()
            async with asyncio.TaskGroup() as tasks:
                telling = tasks.create_task(tell(progress))
                copied = await copier.copy(
                    pair[0], pair[1], digest, platform=None, tag=None, progress=progress
                )
                telling.cancel()
            say(sent=copied.sent, found=copied.found, sent_bytes=copied.sent_bytes, **memory())


async def tell(progress: Progress) -> None:
    """Print each further MiB."""
    told = 0
    while True:
        done = progress.done_bytes >> 20
        if done > told:
            told = done
            say(done_bytes=progress.done_bytes)
        await asyncio.sleep(0.001)


def memory() -> dict[str, int]:
    """Return the memory of this process, now and at the most, in bytes."""
    status = Path("/proc/self/status").read_text()
    found = dict(re.findall(r"^(VmRSS|VmHWM):\s+(\d+) kB$", status, re.MULTILINE))
    return {name: int(value) * 1024 for name, value in found.items()}


def say(**told: int) -> None:
    """Print one line at once."""
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
