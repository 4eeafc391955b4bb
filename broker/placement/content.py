"""What a start in a region waits for: bundle, image and checkpoint, there or to be copied.

The rule: what is not known to stand in a region is copied, and copying takes time and money. A run
without a checkpoint starts from nothing and waits for no copy of one. Where a region has an older
one, it is weighed in money: what a copy of the newest costs, and the delay, beside what the gang
costs while it does again what lies between, and that delay. A gang reads its own region's store
alone, so that to read across regions is no third way. Read ``preparation``.
"""

from dataclasses import dataclass
from decimal import Decimal

from broker.model.checkpoint import Checkpoint
from broker.model.copying import CopyKind
from broker.model.image import PinnedImage
from broker.model.preparing import Preparation, ResumeFrom
from broker.model.reasons import Reason
from broker.model.replacing import replace
from broker.model.run import Placement, Run
from broker.placement.view import View
from broker.placement.words import duration, money, size

COPY_RATE_BYTES_PER_S = 50e6  # one stream between distant regions, until copies were measured
IMAGE_RATE = 50e6  # as much, until images were copied there
BUNDLE_S = 2.0  # bundles are limited to tens of megabytes
LEAST_REDONE_S = 60.0  # a copy that comes sooner is waited for, however close the two were written
_UNIT = Decimal("0.000001")
_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stakes:
    """US dollars for an hour: of the gang at a place, and of a delay of the run.

    An hour of delay costs what an hour of the dearest machines of the kind would, as a wait does.
    """

    hourly: Decimal
    delay_hourly: Decimal


def stakes(view: View, accelerator: str, gpus: int, price_per_gpu_hour: Decimal) -> Stakes:
    """Return what time costs a gang of so many GPUs."""
    dearest = view.dearest.get(accelerator) or Decimal(1)
    return Stakes(hourly=price_per_gpu_hour * gpus, delay_hourly=dearest * gpus)


def stakes_of(view: View, run: Run, leg: Placement) -> Stakes:
    """Return what time costs the gang of a leg."""
    site = leg.site
    accelerator = run.hardware(leg).accelerator
    return stakes(view, accelerator, site.gpus, site.price_per_gpu_hour)


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


def preparation(view: View, run: Run, region: str, at_stake: Stakes) -> Preparation:
    """Return what a start in a region takes before the run goes on from where it was."""
    found = _resumed(view, run, region, at_stake)
    digest = run.intent.workload.bundle_digest
    if digest and region not in view.bundle_regions.get(digest, frozenset()):
        found = replace(found, has_bundle_to_come=True, saved_s=found.saved_s + BUNDLE_S)
    if run.image is not None and view.lacks_image(run, region):
        found = _with_image(view, run.image, region, found)
    return found


def is_too_dear(run: Run, found: Preparation) -> bool:
    """Return whether the copy would go beyond what the run may spend on copies."""
    return run.copies_left is not None and found.checkpoint_usd > run.copies_left


def source_of(checkpoint: Checkpoint) -> str:
    """Return the region that a copy of a checkpoint is read from: its home, while it is there."""
    if checkpoint.home in checkpoint.regions:
        return checkpoint.home
    return min(checkpoint.regions, default="")


def prepared_words(found: Preparation) -> str:
    """Return in words what a start takes first, empty where it takes nothing and has nothing."""
    step, told = found.resume_step, []
    match found.resume:
        case ResumeFrom.NEWEST_HERE:
            told = [f"it resumes from step {step}, which is there"]
        case ResumeFrom.NEWEST_COPIED:
            bytes_there = f"its {size(found.checkpoint_bytes)} are copied"
            told = [f"it resumes from step {step} once {bytes_there}"]
        case ResumeFrom.OLDER_HERE:
            again = f"does {duration(found.redone_s)} again for {money(found.redone_usd)}"
            told = [f"it resumes from step {step}, which is there, and {again}"]
        case ResumeFrom.NOTHING:
            pass
    if found.image_bytes:
        told.append(f"its image of {size(found.image_bytes)} is brought first")
    if found.wait_s >= 1.0 and found.checkpoint_bytes + found.image_bytes:
        cost = f"{money(found.egress_usd)}" if found.egress_usd >= _CENT else "less than a cent"
        told.append(f"about {duration(found.wait_s)} and {cost} on the way")
    return "; ".join([*told, *([found.doubt] if found.doubt else [])])


def _resumed(view: View, run: Run, region: str, at_stake: Stakes) -> Preparation:
    saved = view.saved(run)
    if not saved:
        return Preparation(resume=ResumeFrom.NOTHING)
    newest = saved[0]
    if region in newest.regions:
        return Preparation(resume=ResumeFrom.NEWEST_HERE, resume_step=newest.ref.step)
    copied = _copied(view, newest, region)
    older = next((one for one in saved if region in one.regions), None)
    if older is None:
        return copied
    again = _done_again(newest, older, at_stake)
    if copied.saved_s > view.region(region).policy.patience.content_s or is_too_dear(run, copied):
        return again  # nobody waits for the copy for so long, or it is never made
    return min(copied, again, key=lambda way: _worth(way, at_stake))


def _copied(view: View, newest: Checkpoint, region: str) -> Preparation:
    source = source_of(newest)
    rate = view.rates.foreseen(CopyKind.CHECKPOINT, source, region) or COPY_RATE_BYTES_PER_S
    price = view.egress_price(source, region)
    return Preparation(
        resume=ResumeFrom.NEWEST_COPIED,
        resume_step=newest.ref.step,
        checkpoint_bytes=newest.size_bytes,
        saved_s=newest.size_bytes / max(rate, 1.0),
        checkpoint_usd=price.of(newest.size_bytes),
        doubt=price.doubt,
    )


def _done_again(newest: Checkpoint, older: Checkpoint, at_stake: Stakes) -> Preparation:
    """Return a resume from an older one; a wait that lies between the two counts as training."""
    redone_s = max(LEAST_REDONE_S, newest.written_wall_s - older.written_wall_s)
    return Preparation(
        resume=ResumeFrom.OLDER_HERE,
        resume_step=older.ref.step,
        redone_s=redone_s,
        redone_usd=_for(at_stake.hourly, redone_s),
    )


def _worth(found: Preparation, at_stake: Stakes) -> Decimal:
    """Return what a way costs in all; of two that cost the same the copy, which loses nothing."""
    return found.usd + _for(at_stake.delay_hourly, found.wait_s + found.redone_s)


def _with_image(view: View, image: PinnedImage, region: str, found: Preparation) -> Preparation:
    source = _image_source(view, image, region)
    rate = view.rates.foreseen(CopyKind.IMAGE, source, region) or IMAGE_RATE
    price = view.egress_price(source, region)
    return replace(
        found,
        image_bytes=image.size_bytes,
        image_s=image.size_bytes / max(rate, 1.0),
        image_usd=price.of(image.size_bytes),
        doubt=found.doubt or price.doubt,
    )


def _image_source(view: View, image: PinnedImage, region: str) -> str:
    """Return the region that has an image and whose copies cost least, empty where none has it."""
    holders = sorted(view.image_regions.get(image.name, frozenset()) - {region})
    return min(holders, key=lambda one: view.egress_price(one, region).per_gib, default="")


def _for(hourly: Decimal, seconds: float) -> Decimal:
    return (hourly * Decimal(seconds / _HOUR_S)).quantize(_UNIT)


_CENT = Decimal("0.01")
