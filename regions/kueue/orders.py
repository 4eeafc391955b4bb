"""Actions carried out: on the cluster's API, and on the region's store by ``store_orders``.

The rule: nothing is tried twice here, each outcome says whether and when to try again; an object
that is there already is what was asked for only if it was made by an order for the very same gang;
a JobSet is changed by a patch alone, and removed only by its uid, when it is ours and after the
owner was read.

An order is a JobSet and the network policy that is owned by it. One that stopped between the two
leaves a gang at its gate that nothing keeps apart from others: no grant is written for it.

What holds a gang that Kueue put out and lets in again, while an old grant still names it: started
once, its processes are not among those that ``owner`` lists, and leave (L2); never started, they
are the first to stand whole, and start as the one gang of their epoch (L1). Its object goes as soon
as it is seen put out (``let_go``).

Read ``Orders.carry_out`` first.
"""

from collections.abc import Awaitable, Callable, Iterable

from regions.cluster import (
    Action,
    Cause,
    Grant,
    Manifest,
    Outcome,
    Queue,
    Withdraw,
)
from regions.kueue import names
from regions.kueue.access import MERGE, Api
from regions.kueue.answers import decoded, outcome_of
from regions.kueue.apart import Apart
from regions.kueue.clock import Clock
from regions.kueue.errors import (
    BrokenError,
    ClusterError,
    ConflictError,
    MissingError,
)
from regions.kueue.manifest import (
    JOBSET_API,
    PRIORITY_LABEL,
    Built,
    CannotQueueError,
    build,
    digest,
    granted_class,
    occupant,
    owned,
    what_stays,
)
from regions.kueue.objects.job_set import JobSet, read_job_set
from regions.kueue.objects.meta import Meta
from regions.kueue.objects.reading import Fields, UnreadableError
from regions.kueue.program import Program
from regions.kueue.raising import Refusals
from regions.kueue.site import Site
from regions.kueue.sites import NotSeenError
from regions.kueue.words import Verdict
from regions.store_orders import NOT_CLOSED, StoreOrders, answered, silence

AGAIN_S = 1.0
NOT_SEEN_S = 5.0
GONE_WITHIN_S = 5.0
"""How long a withdrawal waits to see the object gone, when its name has to be taken after it."""
EMPTY_WITHIN_S = 1.0
"""How long when nothing of it runs: so that whoever looks next sees it gone."""
LOOK_S = 0.02
MAX_REMEMBERED = 10_000

_WITHDRAWN = "it was withdrawn; its name stays taken"
OWNED_LATER = "Its NetworkPolicy is owned by its JobSet, by a uid that only the cluster can give."
SENT_OTHERWISE = (
    "It was sent by another order than this one: what ops set for the region has changed since."
)
GOING = Outcome(
    is_done=False,
    cause=Cause.UNKNOWN,
    message="it is being removed; its name is taken as soon as it is gone",
    retry_after_s=AGAIN_S,
)
"""What becomes of a withdrawal whose gang takes longer to leave than it is waited for."""


class Orders:
    """The acting half of a cluster of Kubernetes.

    ``site_of`` says where an order is to run (raises CannotQueueError, NotSeenError), ``classes``
    are the priority classes for our gangs, ``is_there`` says whether a JobSet with a uid is seen,
    ``is_empty`` whether nothing of it is seen to run. ``packed`` is the launcher's zipapp.
    """

    def __init__(
        self,
        api: Api,
        records: StoreOrders,
        clock: Clock,
        *,
        namespace: str,
        packed: bytes,
        site_of: Callable[[Queue], Site],
        classes: Callable[[], dict[str, int]],
        is_there: Callable[[str], bool],
        is_empty: Callable[[str], bool],
    ) -> None:
        self._api = api
        self._records = records
        self._clock = clock
        self._namespace = namespace
        self._packed = packed
        self._program = Program(api, clock, namespace=namespace, packed=packed)
        self._site_of = site_of
        self._classes = classes
        self._is_there = is_there
        self._is_empty = is_empty
        self.refusals = Refusals()
        self._withdrawn: dict[str, None] = {}
        self._apart = Apart(api, namespace)

    async def carry_out(self, action: Action) -> Outcome:
        """Carry out one action and say what became of it."""
        if isinstance(action, Grant):
            refused = await _heard(self._apart_before(action.placement))
            if not refused.is_done:
                return refused
        return await _heard(
            self._records.carry_out(action, queue=self._queue, withdraw=self._withdraw)
        )

    def manifest(self, order: Queue, gang: JobSet | None) -> Manifest:
        """Return what is sent for an order. ``gang`` is the one that was sent, None before that."""
        try:
            built = self._build(order)
        except (CannotQueueError, NotSeenError) as error:
            return Manifest(refusal=str(error))
        notes, enclave = list(built.notes), built.enclave
        if gang is None:
            notes.append(OWNED_LATER)
        else:
            enclave = owned(enclave, gang.meta.name, gang.meta.uid)
            if gang.meta.annotations.get(names.SENT) != digest(order):
                notes.append(SENT_OTHERWISE)
        return Manifest(objects=(built.launcher, built.jobset, enclave), notes=tuple(notes))

    # ---- queueing ----

    def _build(self, order: Queue) -> Built:
        """Return the objects of an order. Raises CannotQueueError, NotSeenError."""
        return build(order, self._site_of(order), self._packed)

    async def _queue(self, action: Queue) -> Outcome:
        if action.placement in self._withdrawn:
            return Outcome(is_done=False, cause=Cause.WITHDRAWN, message=_WITHDRAWN)
        order = digest(what_stays(action))
        if self._is_there(self._apart.of(action.placement, order)):
            return Outcome(is_done=True)
        try:
            manifest = self._build(action)
        except CannotQueueError as error:
            return Outcome(is_done=False, cause=Cause.REFUSED, message=str(error))
        except NotSeenError as error:
            return Outcome(
                is_done=False, cause=Cause.UNKNOWN, message=str(error), retry_after_s=NOT_SEEN_S
            )
        refused = await self._program.bring()
        if refused is not None:
            return refused
        name = manifest.jobset["metadata"]["name"]
        try:
            made = _meta(await self._api.ask("POST", self._gangs(), body=manifest.jobset))
        except ConflictError:
            found = await self._find(name)
            if found is None:
                return silence("it went while it was looked at")
            refused = _other(found, action)
            if refused is not None:
                return refused
            made = found.meta
        except MissingError:
            self._program.forget()  # where the namespace went, it went too
            raise
        enclave = owned(manifest.enclave, name, made.uid)
        return await self._apart.keep(action.placement, enclave, made.uid, order)

    async def _apart_before(self, placement: str) -> Outcome:
        """Say whether a gang may be granted: it is not here yet, or kept apart from others."""
        if self._apart.knows(placement):
            return Outcome(is_done=True)
        found = await self._find(names.jobset_name(placement))
        if found is None or not _is_ours(found, placement):
            return Outcome(is_done=True)
        return await self._apart.look(placement, found.meta.uid)

    # ---- withdrawing ----

    async def _withdraw(self, action: Withdraw) -> Outcome:
        name = names.jobset_name(action.placement)
        found = await self._find(name)
        if found is not None:
            refused = _not_meant(found, action)
            if refused is not None:
                return refused
        # Last of all before the removal: a start that was decided since is seen here.
        if not await self._records.can_withdraw(action):
            return NOT_CLOSED
        self._remember(action.placement)
        if found is not None and not _is_occupant(found):
            await self._remove(found.meta.uid, name)
            is_short = bool(action.uid)
            limit_s = EMPTY_WITHIN_S if is_short else GONE_WITHIN_S
            if not is_short or self._is_empty(found.meta.uid):
                await self._see_gone(found.meta.uid, limit_s)
        if action.uid or (found is not None and _is_occupant(found)):
            return Outcome(is_done=True, message="" if found is not None else "it is not here")
        return await self._occupy(action)

    async def _occupy(self, action: Withdraw) -> Outcome:
        """Take the name, so that a late order finds it taken."""
        body = occupant(action.placement, action.run_key, self._namespace)
        try:
            made = _meta(await self._api.ask("POST", self._gangs(), body=body))
        except ConflictError:
            found = await self._find(body["metadata"]["name"])
            if found is not None and _is_occupant(found):
                return Outcome(is_done=True)
            return GOING
        await self._until(lambda: self._is_there(made.uid), EMPTY_WITHIN_S)
        return Outcome(is_done=True)

    async def _remove(self, uid: str, name: str, version: str = "") -> None:
        """Delete a JobSet in the foreground, the very one; one that is gone already is gone."""
        meant = {"uid": uid} | ({"resourceVersion": version} if version else {})
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Foreground",
            "preconditions": meant,
        }
        try:
            await self._api.ask("DELETE", f"{self._gangs()}/{name}", body=body)
        except MissingError:
            return

    async def _see_gone(self, uid: str, within_s: float) -> bool:
        return await self._until(lambda: not self._is_there(uid), within_s)

    async def _until(self, is_so: Callable[[], bool], within_s: float) -> bool:
        until_s = self._clock.monotonic_s() + within_s
        while not is_so():
            if self._clock.monotonic_s() >= until_s:
                return False
            await self._clock.pause(LOOK_S)
        return True

    def _remember(self, placement: str) -> None:
        self._withdrawn[placement] = None
        while len(self._withdrawn) > MAX_REMEMBERED:
            del self._withdrawn[next(iter(self._withdrawn))]

    # ---- what follows from what is seen ----

    async def mend_program(self, said: Iterable[Verdict]) -> Outcome:
        """Bring the launcher again where it is said of gangs that it is missing."""
        return await _heard(self._mend_program(said))

    async def _mend_program(self, said: Iterable[Verdict]) -> Outcome:
        return await self._program.mend(said) or Outcome(is_done=True)

    async def let_go(self, gang: JobSet, *, has_started: bool = False) -> Outcome:
        """Remove a gang that was put out.

        One that waits goes just as it was seen. One that was let in again changes all the time, and
        goes whatever its cluster does with it; but where it had not started (``has_started``), only
        once no start of it can be decided any more, as in a withdrawal (B6).
        """
        return await _heard(self._let_go(gang, has_started))

    async def _let_go(self, gang: JobSet, has_started: bool) -> Outcome:
        meta = gang.meta
        if not (gang.is_suspended or has_started):
            meant = Withdraw(
                placement=meta.annotations.get(names.PLACED, ""),
                run_key=meta.annotations.get(names.KEYED, ""),
                uid=meta.uid,
                epoch=None,
                is_closed=False,
            )
            if not await self._records.can_withdraw(meant):
                return NOT_CLOSED
        await self._remove(meta.uid, meta.name, meta.resource_version if gang.is_suspended else "")
        return Outcome(is_done=True)

    def is_low(self, gang: JobSet) -> bool:
        """Whether a gang's priority is another one than a grant gives it."""
        wanted = granted_class(gang, self._classes())
        return bool(wanted) and gang.meta.labels.get(PRIORITY_LABEL) != wanted

    async def raise_priority(self, gang: JobSet) -> Outcome:
        """Give a granted gang the run's own priority. Done also when there is nothing to do."""
        if not self.is_low(gang):
            return Outcome(is_done=True)
        wanted = granted_class(gang, self._classes())
        outcome = await _heard(self._raise(gang.meta, wanted))
        self.refusals.take_in(gang.meta.uid, outcome)
        return outcome

    async def _raise(self, meta: Meta, wanted: str) -> Outcome:
        body = {"metadata": {"uid": meta.uid, "labels": {PRIORITY_LABEL: wanted}}}
        where = f"{self._gangs()}/{meta.name}"
        await self._api.ask("PATCH", where, body=body, content_type=MERGE)
        return Outcome(is_done=True)

    # ---- asking ----

    async def _find(self, name: str) -> JobSet | None:
        """Return a JobSet as it is now, None when there is none. Raises ClusterError."""
        try:
            return _job_set(await self._api.ask("GET", f"{self._gangs()}/{name}"))
        except MissingError as error:
            if "could not find the requested resource" in error.message:
                raise
            return None

    def _gangs(self) -> str:
        return f"/apis/{JOBSET_API}/namespaces/{self._namespace}/jobsets"


async def _heard(acting: Awaitable[Outcome]) -> Outcome:
    """Carry out an action; what the cluster says instead of an answer is its outcome."""
    try:
        return await answered(acting)
    except ConflictError as error:
        # The object is another than the one that was looked at: a new look tells.
        return silence(f"it changed meanwhile: {error.message}")
    except ClusterError as error:
        return outcome_of(error)


def _other(found: JobSet, action: Queue) -> Outcome | None:
    """Say why what has the order's name is not the order's gang; None: it is."""
    if not _is_ours(found, action.placement):
        message = "an object that is not the broker's has its name"
        return Outcome(is_done=False, cause=Cause.REFUSED, message=message)
    if _is_occupant(found) or found.meta.deleting_s is not None:
        return Outcome(is_done=False, cause=Cause.WITHDRAWN, message=_WITHDRAWN)
    if not _is_its_own(found, action):
        message = "another order of its name was queued before"
        return Outcome(is_done=False, cause=Cause.REFUSED, message=message)
    return None


def _is_its_own(found: JobSet, action: Queue) -> bool:
    """Whether a gang that has an order's name was made by an order for the very same gang.

    A log draws the name of a placement once, for one gang: what bears the log's mark is that one,
    whichever build of the broker made it. Its digest is of all that an order said then, and each
    build may say more. Where no mark tells it, the digest alone does.
    """
    meta, mark = found.meta, action.labels.get("log", "")
    is_of_log = bool(mark) and meta.labels.get(names.LOG) == names.label_value(mark)
    is_alike = meta.annotations.get(names.KEYED) == action.run_key
    if is_of_log and is_alike and found.members == action.gang.ranks:
        return True
    return meta.annotations.get(names.ORDER) == digest(what_stays(action))


def _not_meant(found: JobSet, action: Withdraw) -> Outcome | None:
    """Say why an object is not the one that a withdrawal means; None: it is."""
    if not _is_ours(found, action.placement):
        message = "the object of this name is not the broker's"
        return Outcome(is_done=False, cause=Cause.REFUSED, message=message)
    if action.uid and action.uid != found.meta.uid:
        message = f"the object of this name is {found.meta.uid}, not {action.uid}"
        return Outcome(is_done=False, cause=Cause.UNKNOWN, message=message)
    return None


def _is_ours(found: JobSet, placement: str) -> bool:
    meta = found.meta
    is_marked = meta.labels.get(names.MANAGED_BY) == names.MANAGER
    return is_marked and meta.annotations.get(names.PLACED) == placement


def _is_occupant(found: JobSet) -> bool:
    return found.meta.labels.get(names.PART) == names.OCCUPIED_PART


def _job_set(body: bytes) -> JobSet:
    try:
        return read_job_set(Fields(decoded(body)), "")
    except UnreadableError as error:
        raise BrokenError(f"the object cannot be read: {error}") from error


def _meta(body: bytes) -> Meta:
    return _job_set(body).meta
