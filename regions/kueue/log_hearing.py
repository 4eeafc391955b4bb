"""What the last lines of a process say of its end. Pure.

The rule: a line of a log is a hint, never a fact about the cluster: by it a failure is called by
its name, and no failure is made of it. Read ``LAST_LINES``.
"""

from regions.kueue.hearing import sayings
from regions.kueue.vocabulary import Word

# In this order: what names a cause comes before what only follows from one, and a watchdog that
# waited in vain says less than the memory that was not enough.
LAST_LINES = sayings(
    (r"exec format error|cannot execute binary file", Word.IMAGE_WRONG_ARCHITECTURE),
    (
        r"launcher: cannot run (?P<what>[^:\n]{1,200}): (?:No such file|\[Errno 2\])",
        Word.COMMAND_NOT_FOUND,
    ),
    (
        r"launcher: cannot run (?P<what>[^:\n]{1,200}): (?:Permission denied|\[Errno 13\])",
        Word.COMMAND_NOT_EXECUTABLE,
    ),
    (r"launcher: cannot run (?P<what>[^:\n]{1,200}): Exec format", Word.COMMAND_NOT_EXECUTABLE),
    (r"launcher: (?P<what>[^\n]{0,60}BROKER_[A-Z_]{1,40}[^\n]{0,100})", Word.LAUNCHER_MISTOLD),
    (r"unable to write to file </torch_", Word.SHARED_MEMORY_FULL),
    (r"insufficient shared memory|unable to open shared memory", Word.SHARED_MEMORY_FULL),
    (r"DataLoader worker [^\n]{0,80}Bus error", Word.SHARED_MEMORY_FULL),
    (
        (
            r"torch\.(?:cuda\.)?OutOfMemoryError|CUDA out of memory|CUDA_ERROR_OUT_OF_MEMORY"
            r"|RESOURCE_EXHAUSTED: Out of memory"
        ),
        Word.GPU_OUT_OF_MEMORY,
    ),
    (
        (
            r"uncorrectable ECC|NVRM: Xid|has fallen off the bus|no CUDA-capable device is detected"
            r"|CUDA error: hardware|Unable to determine the device handle"
        ),
        Word.GPU_FAULT,
    ),
    (r"No space left on device|Disk quota exceeded", Word.DISK_FULL),
    (r"ModuleNotFoundError: No module named '?(?P<what>[\w.]{1,100})", Word.MODULE_MISSING),
    (r"Address already in use|EADDRINUSE", Word.PORT_TAKEN),
    (
        (
            r"Watchdog caught collective operation timeout|collective operation timeout"
            r"|NCCL[^\n]{0,80}tim(?:ed|e) ?out|Timed out waiting \d+ms for"
        ),
        Word.NCCL_TIMEOUT,
    ),
    (
        (
            r"ncclSystemError|ncclInternalError|ncclUnhandledCudaError|ncclRemoteError|NCCL error"
            r"|Connection closed by peer"
        ),
        Word.NCCL_ERROR,
    ),
)
