"""What a start in a region waits for: bundle, image and checkpoint, there or to be copied.

The rule: what is not known to stand in a region is copied, and copying takes time. A run without
a checkpoint starts from nothing and waits for no copy of one.
"""

from broker.model.checkpoint import Checkpoint
from broker.model.copying import CopyKind
from broker.model.image import PinnedImage
from broker.model.reasons import Reason
from broker.model.run import Placement, Run
from broker.placement.view import View

COPY_RATE_BYTES_PER_S = 50e6  # one stream between distant regions, until copies were measured
IMAGE_RATE = 50e6  # as much, until images were copied there
BUNDLE_S = 2.0  # bundles are limited to tens of megabytes


def image_word(view: View, run: Run, leg: Placement) -> tuple[Reason, str] | None:
    """Return why a leg's region cannot give a gang the run's image now, None when it can."""
    image, region = run.image, leg.site.region
    if image is None:
        return None
    # A registry that is silent says so, too, where the image was seen before.
    word = view.image_words.get((image.name, region))
    if word is None and view.lacks_image(run, region):
        return Reason.IMAGE_NOT_THERE, f"{region} does not have {image.name} yet"
    return word


def content_s(view: View, run: Run, region: str) -> float:
    """Return how long content is on its way to a region before a start there, in seconds."""
    return saved_s(view, run, region) + image_s(view, run, region)


def image_s(view: View, run: Run, region: str) -> float:
    """Return how long the run's image is on its way to a region's registry, in seconds."""
    if run.image is None or not view.lacks_image(run, region):
        return 0.0
    rate = view.rates.foreseen(CopyKind.IMAGE, _image_source(view, run.image, region), region)
    return run.image.size_bytes / max(rate or IMAGE_RATE, 1.0)


def saved_s(view: View, run: Run, region: str) -> float:
    """Return how long bundle and checkpoint are on their way to a region, in seconds.

    Counts the newest checkpoint that the run could resume from: what an older copy in the region
    saves in waiting it costs in training done twice.
    """
    wait_s = 0.0
    digest = run.intent.workload.bundle_digest
    if digest and region not in view.bundle_regions.get(digest, frozenset()):
        wait_s += BUNDLE_S
    newest = view.newest(run)
    if newest is not None and region not in newest.regions:
        rate = view.rates.foreseen(CopyKind.CHECKPOINT, source_of(newest), region)
        wait_s += newest.size_bytes / max(rate or COPY_RATE_BYTES_PER_S, 1.0)
    return wait_s


def source_of(checkpoint: Checkpoint) -> str:
    """Return the region that a copy of a checkpoint is read from: its home, while it is there."""
    if checkpoint.home in checkpoint.regions:
        return checkpoint.home
    return min(checkpoint.regions, default="")


def _image_source(view: View, image: PinnedImage, region: str) -> str:
    """Return the region that has an image and whose copies cost least, empty where none has it."""
    holders = sorted(view.image_regions.get(image.name, frozenset()) - {region})
    return min(holders, key=lambda one: view.egress_price(one, region).per_gib, default="")
