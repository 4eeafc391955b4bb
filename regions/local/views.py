"""What the cluster shows of itself, and since which generation.

The rule: a generation grows with every change that is visible, and with nothing else, so that
whoever asks "since" pays for what changed. Read ``Showcase.refresh`` first.
"""

from regions.cluster import Cause, Stage
from regions.local import gangs, nodes, quota, wire
from regions.local.config import FlavorConfig, WorldConfig
from regions.local.state import Job, Phase, State

_STAGES = {
    Phase.WAITING: Stage.QUEUED,
    Phase.BOOKED: Stage.QUEUED,
    Phase.PROVISIONING: Stage.PROVISIONING,
    Phase.STANDING: Stage.STANDING,
    Phase.ENDED: Stage.ENDED,
}


class Showcase:
    """The views of one life of a daemon, ``instance``, with the generation each changed in."""

    def __init__(self, instance: str) -> None:
        self.instance = instance
        self.generation = 0
        self.blind: tuple[str, ...] = ()
        self._blind_shown: tuple[str, ...] = ()
        self._jobs: dict[str, tuple[int, wire.JobView]] = {}
        self._queues: tuple[wire.QueueView, ...] = ()
        self._last_removal = 0
        self._last_serial = 0

    def refresh(self, config: WorldConfig, state: State) -> bool:
        """Look at the state again. True: something visible has changed."""
        jobs = _job_views(config, state)
        ours = [queue.name for queue in config.queues if not queue.is_foreign]
        queues = tuple(_queue_view(config, state, queue) for queue in ours)
        shown = {uid: view for uid, (_, view) in self._jobs.items()}
        is_same = (jobs, queues, self.blind) == (shown, self._queues, self._blind_shown)
        if is_same and state.signal_serial == self._last_serial:
            return False
        self.generation += 1
        if shown.keys() - jobs.keys():
            self._last_removal = self.generation
        self._jobs = {
            uid: self._jobs[uid] if shown.get(uid) == view else (self.generation, view)
            for uid, view in jobs.items()
        }
        self._queues = queues
        self._last_serial = state.signal_serial
        self._blind_shown = self.blind
        return True

    def answer(self, request: wire.Observe, state: State, now_s: float) -> wire.Observed:
        """Tell what changed since what the asker knows."""
        is_known = request.instance == self.instance and request.generation >= self._last_removal
        since = request.generation if is_known else -1
        serial = request.signal_serial if is_known else 0
        return wire.Observed(
            instance=self.instance,
            generation=self.generation,
            now_s=now_s,
            is_full=not is_known,
            jobs=tuple(view for changed, view in self._jobs.values() if changed > since),
            queues=self._queues,
            signals=tuple(signal for signal in state.signals if signal.serial > serial),
            blind=self.blind,
        )


def _job_views(config: WorldConfig, state: State) -> dict[str, wire.JobView]:
    ahead: dict[str, tuple[int, int]] = {}
    for queue in config.queues:
        for each in queue.quotas:
            gpus = 0
            for place, job in enumerate(quota.waiting(state, queue.name, each.flavor)):
                ahead[job.uid] = (place, gpus)
                gpus += job.gpus
    return {
        job.uid: _job_view(state, job, ahead.get(job.uid))
        for job in state.jobs.values()
        if state.names.get(job.name) == job.uid
    }


def _job_view(state: State, job: Job, ahead: tuple[int, int] | None) -> wire.JobView:
    spec = job.spec
    message = job.message
    if job.cause is Cause.WAITING_FOR_QUOTA and ahead is not None:
        message = f"waits for {job.gpus} GPUs of quota, {ahead[0]} gangs are ahead"
    stood = Stage.STANDING if len(gangs.present(job)) >= job.nodes_wanted else Stage.PROVISIONING
    return wire.JobView(
        uid=job.uid,
        placement=job.name,
        run_key=job.run_key,
        queue=job.queue,
        flavor=job.flavor,
        stage=_STAGES.get(job.phase, stood),
        cause=job.cause,
        message=message,
        eta_s=job.eta_s,
        ends_s=nodes.ends_at_s(state, job),
        ahead=ahead[0] if ahead is not None else None,
        ahead_gpus=ahead[1] if ahead is not None else None,
        nodes_here=nodes.here(state, job),
        nodes_wanted=job.nodes_wanted,
        world_size=job.nodes_wanted,
        members=tuple(
            wire.MemberView(
                rank=member.rank,
                member=member.id,
                is_alive=not member.is_gone,
                exit_code=member.exit_code,
                signal=member.signal,
            )
            for member in job.members
        ),
        labels=spec.labels if spec is not None else {},
        history=tuple(job.history),
        first_exit=job.first_exit,
    )


def _queue_view(config: WorldConfig, state: State, queue: str) -> wire.QueueView:
    waiting = [
        job for job in state.jobs.values() if job.queue == queue and job.phase is Phase.WAITING
    ]
    found = config.queue(queue)
    flavors = [
        (flavor, each)
        for each in (found.quotas if found is not None else ())
        if (flavor := config.flavor(each.flavor)) is not None
    ]
    return wire.QueueView(
        queue=queue,
        is_stopped=queue in state.held_queues,
        pending=len(waiting),
        pending_gpus=sum(job.gpus for job in waiting),
        flavors=tuple(_flavor_view(config, state, queue, flavor) for flavor, _ in flavors),
    )


def _flavor_view(
    config: WorldConfig, state: State, queue: str, flavor: FlavorConfig
) -> wire.FlavorView:
    there = quota.standing(config, state, queue, flavor.name)
    of_flavor = [node for node in state.nodes.values() if node.flavor == flavor.name]
    return wire.FlavorView(
        flavor=flavor.name,
        accelerator=flavor.accelerator,
        accelerators_per_node=flavor.accelerators_per_node,
        capacity_type=flavor.capacity_type,
        zones=flavor.zones,
        price_per_gpu_hour=flavor.price_per_gpu_hour,
        nominal=there.nominal,
        reserved=there.reserved,
        used=there.used,
        parked=max(0, there.reserved - there.used),
        borrowable=there.borrowable,
        # One that is about to be taken away stands there for nobody.
        nodes_free=sum(
            1 for n in of_flavor if n.is_ready and not n.holder and n.takes_at_s is None
        ),
        nodes_coming=sum(1 for node in of_flavor if not node.is_ready),
        max_nodes=flavor.max_nodes,
        startup_s=flavor.startup_s,
        preemption_notice_s=flavor.preemption_notice_s,
        eta_s=nodes.booking_s(state, flavor),
        max_run_s=flavor.max_run_s,
    )
