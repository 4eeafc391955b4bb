"""Which content a run wants where, and which of its checkpoints need not be kept. Pure.

The rule: what is wanted follows the lineage, the open epoch's own saves before what it resumed
from; the regions where a leg waits come first, then those where the next start is likeliest. What
anybody reads, or could have to read, is kept. Read ``wanted`` first.
"""

from collections.abc import Mapping
from itertools import islice

from broker.history.lineage import has_saved_since, resumable
from broker.loops.content import path_of
from broker.model.checkpoint import Checkpoint, CheckpointRef
from broker.model.moment import Moment
from broker.model.run import Run
from broker.placement.explain import explain
from broker.placement.view import View
from replicator.checkpoint.paths import CheckpointPath
from replicator.checkpoint.plan import Candidate, Wanted
from replicator.checkpoint.retention import KeepRule, prunable
from replicator.checkpoint.scan import FoundCheckpoint, Stage

KEPT_IN_REGIONS = 2  # one region's disk or an order to empty it must not take the last of a run


def newest_first(run: Run) -> tuple[Checkpoint, ...]:
    """Return what the next start could resume from if the open epoch closed now, newest first."""
    epoch = run.open_epoch
    own: list[Checkpoint] = []
    if epoch is not None:
        own = [c for c in run.checkpoints if c.ref.epoch == epoch.id and not c.is_bad]
        own.sort(key=lambda c: c.ref.step, reverse=True)
    refs = {c.ref for c in own}
    return (*own, *(c for c in resumable(run) if c.ref not in refs))


def likely_regions(view: View, run: Run, now: Moment) -> tuple[str, ...]:
    """Return where the next start is likely, likeliest first, none of where the run is now."""
    epoch = run.open_epoch
    here = "" if epoch is None else epoch.region
    regions = [leg.site.region for leg in run.waiting_placements]
    regions += [offer.region for offer in explain(view, run, now).offers]
    return tuple(region for region in dict.fromkeys(regions) if region != here)


def wanted(view: View, run: Run, now: Moment) -> Wanted | None:
    """Return which checkpoints are wanted in which regions, None for none."""
    candidates = newest_first(run)
    if not candidates:
        return None
    waiting = tuple(dict.fromkeys(leg.site.region for leg in run.waiting_placements))
    copies = view.region(candidates[0].home).policy.checkpoint_copies
    ahead = [region for region in likely_regions(view, run, now) if region != candidates[0].home]
    regions = dict.fromkeys((*waiting, *ahead[:copies]))
    return Wanted(
        run_key=run.uid,
        candidates=_candidates(run, candidates),
        regions=tuple(region for region in regions if run.terms.keeps_residency(region)),
    )


def kept_apart(view: View, run: Run, now: Moment) -> Wanted | None:
    """Return the copy that an ended run's last checkpoint still lacks, None for none.

    It is what a run that succeeded was for, and what others would be resumed or forked from: it
    is to stand in two regions that nobody closes, the likeliest for a next start first. Nobody
    waits for it, so nothing else of the run is copied. It is wanted nowhere for now, but not None,
    while only regions that are closed could take it: they are opened again.
    """
    candidates = () if run.is_retiring else newest_first(run)[:1]
    if not candidates or not view.region(candidates[0].home).policy.checkpoint_copies:
        return None
    last = candidates[0]
    accepted = [
        name
        for name in dict.fromkeys((*likely_regions(view, run, now), *sorted(view.regions)))
        if run.terms.accepts_region(name) and run.terms.keeps_residency(name)
    ]
    open_to_it = [name for name in accepted if not _is_closed(view, name)]
    lacking = KEPT_IN_REGIONS - sum(name in last.regions for name in open_to_it)
    regions = [name for name in open_to_it if name not in last.regions][: max(0, lacking)]
    if lacking <= 0 or last.regions.issuperset(accepted):
        return None
    return Wanted(run_key=run.uid, candidates=_candidates(run, candidates), regions=tuple(regions))


def in_turn(names: dict[str, None], most: int) -> list[str]:
    """Return the first names, at most so many, and put them behind the others."""
    first = list(islice(names, most))
    for name in first:
        del names[name]
        names[name] = None
    return first


def _is_closed(view: View, region: str) -> bool:
    standing = view.region(region)
    return standing.is_cordoned or standing.is_draining or not standing.policy.is_allowed


def what_it_holds(run: Run) -> object:
    """Return all of a run that its wishes follow from: equal while nothing is to be wished anew."""
    epoch = run.open_epoch
    legs = tuple(leg.site.region for leg in run.waiting_placements)
    is_over = (run.is_ended, run.is_retiring)
    return (run.checkpoints, legs, None if epoch is None else epoch.id, run.resume_wish, is_over)


def _candidates(run: Run, checkpoints: tuple[Checkpoint, ...]) -> tuple[Candidate, ...]:
    return tuple(
        Candidate(path=path_of(run.uid, c.ref), digest=c.ref.digest, size_bytes=c.size_bytes)
        for c in checkpoints
    )


def holders(run: Run, reachable: frozenset[str]) -> Mapping[CheckpointPath, tuple[str, ...]]:
    """Return, by checkpoint, the readable regions that hold it, its home first."""
    return {
        path_of(run.uid, c.ref): tuple(
            sorted(c.regions & reachable, key=lambda region: (region != c.home, region))
        )
        for c in run.checkpoints
    }


def to_prune(
    run: Run, copying: frozenset[CheckpointPath], held: frozenset[CheckpointRef]
) -> tuple[CheckpointRef, ...]:
    """Return the checkpoints that retention lets go, oldest first; ``held`` are kept for forks."""
    if not has_saved_since(run):
        return ()
    spec = run.intent.workload.checkpoint
    lineage = newest_first(run)
    rest = [c for c in reversed(run.checkpoints) if c not in lineage and c.ref.is_own]
    known = [*(c for c in lineage if c.ref.is_own), *rest]
    if len(known) <= spec.keep_last:
        return ()
    by_path = {path_of(run.uid, c.ref): c.ref for c in known}
    found = [
        FoundCheckpoint(
            path=path_of(run.uid, c.ref),
            stage=Stage.ATTESTED,
            is_marked=True,
            why="",
            digest=c.ref.digest,
            size_bytes=c.size_bytes,
            modified_s=c.written_wall_s,
        )
        for c in known
    ]
    named = {path_of(run.uid, c.ref) for c in known if c.is_pinned or c.label}
    keep = KeepRule(
        last_n=max(1, spec.keep_last),
        every_n=spec.keep_every_steps,
        pinned=named,
        named=frozenset(),
    )
    counting = {path_of(run.uid, c.ref) for c in known if not c.is_bad}
    in_use = _in_use(run) | copying | {path_of(run.uid, ref) for ref in held}
    gone = prunable(found, keep, in_use=in_use, sealed=counting)
    return tuple(by_path[path] for path in gone)


def _in_use(run: Run) -> frozenset[CheckpointPath]:
    """What the open epoch reads, and what a leg would: the newest that its region has."""
    refs = set()
    epoch = run.open_epoch
    if epoch is not None and epoch.resume_from is not None:
        refs.add(epoch.resume_from)
    wish = run.resume_wish
    if wish is not None:
        # The open epoch may still have to be sealed before it counts.
        refs |= {c.ref for c in run.checkpoints if c.ref.step == wish.step}
    candidates = resumable(run)
    for leg in run.waiting_placements:
        here = next((c for c in candidates if leg.site.region in c.regions), None)
        if here is not None:
            refs.add(here.ref)
    return frozenset(path_of(run.uid, ref) for ref in refs)
