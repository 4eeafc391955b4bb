"""What a start in a region waits for: the bundle and the checkpoint, there or to be copied.

The rule: what is not known to stand in a region is copied, and copying takes time. A run without
a checkpoint starts from nothing and waits for no copy of one.
"""

from broker.model.run import Run
from broker.placement.view import View

COPY_RATE_BYTES_PER_S = 50e6  # one stream between distant regions, until copies were measured
BUNDLE_S = 2.0  # bundles are limited to tens of megabytes


def content_s(view: View, run: Run, region: str) -> float:
    """Return how long content is on its way to a region before a start there, in seconds.

    Counts the newest checkpoint that the run could resume from: what an older copy in the region
    saves in waiting it costs in training done twice.
    """
    wait_s = 0.0
    digest = run.intent.workload.bundle_digest
    if digest and region not in view.bundle_regions.get(digest, frozenset()):
        wait_s += BUNDLE_S
    newest = view.newest(run)
    if newest is not None and region not in newest.regions:
        rate = view.copy_rates.get(region, COPY_RATE_BYTES_PER_S)
        wait_s += newest.size_bytes / max(rate, 1.0)
    return wait_s
