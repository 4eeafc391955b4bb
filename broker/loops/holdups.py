"""Why copies of checkpoints that runs want are not made now: money, budgets, a store, a failure.

The rule: what holds a copy up is said for its run and region, until the next look at what is
wanted. Read ``Holdups.allowed``.
"""

from collections.abc import Collection, Iterable, Mapping
from decimal import Decimal

from broker.loops.later import Later
from broker.loops.purse import Purse
from broker.model.run import Run
from broker.placement.view import View
from replicator.checkpoint.plan import Copy, Deferred, Wanted, Why

# Why a copy that may be paid waits all the same; what is on its way there is seen.
_WORDS = {
    Why.NO_SOURCE: "no region that holds it can be read",
    Why.PARALLEL: "it is in line: as many copies are under way as may be",
    Why.BUDGET: "the hourly egress budget of {source} is spent, or kept for what is before it",
    Why.NEVER_FITS: "it is larger than a whole hour's egress budget of {source}",
}


class Holdups:
    """What holds up the copies of all runs, by region, in words."""

    def __init__(self, purse: Purse, view: View, later: Later[tuple[str, str]]) -> None:
        self._purse = purse
        self._view = view
        self._later = later
        self._said: dict[str, dict[str, str]] = {}

    def of(self, run: str) -> Mapping[str, str]:
        """Return, by region, why a copy that a run wants there is not made now."""
        return self._said.get(run, {})

    def forget(self, run: str) -> None:
        """Forget a run that wants no copy any more."""
        self._said.pop(run, None)

    def allowed(
        self,
        run: Run,
        wish: Wanted,
        source: str,
        *,
        reachable: Collection[str],
        has_newest: Collection[str],
        coming: Mapping[str, Decimal],
    ) -> Wanted:
        """Return a run's wish without the regions that get no copy now, and say why they do not.

        ``coming`` is what the run's copies cost that are on their way, by where they go. A region
        that lacks an older step is judged by the price of the newest: they are about as large.
        """
        newest, said = wish.candidates[0], dict[str, str]()
        coming_usd = sum(coming.values(), Decimal(0))
        for region in wish.regions:
            usd = self._view.egress_price(source, region).of(newest.size_bytes)
            if region not in reachable:
                said[region] = f"the store of {region} cannot be read"
            elif self._later.is_too_soon((region, str(newest.path))):
                said[region] = "the last try failed, and the next one waits"
            elif region in has_newest or region in coming:
                continue
            elif why := self._purse.refusal(run, usd, coming_usd=coming_usd):
                said[region] = why
        self._said[run.name] = said
        regions = tuple(region for region in wish.regions if region not in said)
        return Wanted(run_key=wish.run_key, candidates=wish.candidates, regions=regions)

    def is_paid(self, run: Run, copy: Copy, usd: Decimal, coming: Mapping[str, Decimal]) -> bool:
        """Return whether a planned copy may still be paid: others of its plan may have spent."""
        why = self._purse.refusal(run, usd, coming_usd=sum(coming.values(), Decimal(0)))
        if why:
            self._said.setdefault(run.name, {})[copy.destination] = why
        return not why

    def put_off(self, runs: Iterable[Run], deferred: Iterable[Deferred], source: str) -> None:
        """Say what a plan has put off."""
        names = {run.uid: run.name for run in runs}
        for one in deferred:
            name = names.get(one.candidate.path.run_key)
            words = _WORDS.get(one.why, "").format(source=source)
            if name is not None and words:
                self._said.setdefault(name, {})[one.destination] = words
