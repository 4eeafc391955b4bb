"""What a daemon finds when it starts: the state as it was left, and the processes that went on.

The rule: a process that carries this cluster's mark and is in no record is shown as a placement, so
that a broker can judge it, and never killed here. Read ``restore`` first.
"""

from collections import defaultdict

from regions.cluster import Cause
from regions.local import gangs, member, nodes, processes
from regions.local.config import WorldConfig
from regions.local.disk import Disk
from regions.local.state import GangSpec, Job, Member, Phase, State


def restore(config: WorldConfig, disk: Disk, now_s: float) -> tuple[State, tuple[str, ...]]:
    """Read the state, or make a first one, and join it with the processes that are there.

    Also returns what was found and cannot be shown. Raises StateUnreadableError.
    """
    boot_id = processes.boot_id()
    state = disk.load()
    if state is None:
        state = State(boot_id=boot_id, began_s=now_s)
        state.stock = {
            flavor.name: flavor.stock for flavor in config.flavors if flavor.stock is not None
        }
        nodes.warm(config, state, now_s)
    elif state.boot_id != boot_id:
        lose_all(state, boot_id, now_s)
        nodes.warm(config, state, now_s)
    return state, _join(state, processes.find(disk.mark), now_s)


def lose_all(state: State, boot_id: str, now_s: float) -> None:
    """The machine was started anew: its processes are gone, and its clock began from zero."""
    state.boot_id, state.began_s = boot_id, now_s
    state.nodes.clear()
    state.signals.clear()
    state.fired.clear()
    for job in state.jobs.values():
        job.history.clear()  # its times are of a clock that is no more
    for job in state.live_jobs():
        job.queued_s, job.signal_again_s = now_s, now_s
        for one in job.alive:
            one.is_gone = True
        if job.phase is not Phase.WAITING:
            gangs.end(job, now_s, Cause.NODE_LOST, "the machine of the embedded cluster restarted")


def _join(state: State, found: tuple[processes.Found, ...], now_s: float) -> tuple[str, ...]:
    """Give processes to the members they are; those of no record become placements of their own."""
    known = {one.id: one for job in state.live_jobs() for one in job.alive}
    unknown: dict[str, list[processes.Found]] = defaultdict(list)
    for process in sorted(found, key=lambda process: process.start_ticks):
        one = known.get(process.member)
        if one is not None:
            if one.pid == 0 and process.is_first:
                # The daemon died between starting it and writing that down.
                one.pid, one.start_ticks = process.pid, process.start_ticks
        elif process.is_first:
            unknown[process.environ.get(member.OBJECT, "")].append(process)
    blind = []
    for uid, strangers in unknown.items():
        placement = strangers[0].environ.get("BROKER_PLACEMENT", "")
        if not uid or not placement or placement in state.names:
            pids = ", ".join(str(process.pid) for process in strangers)
            blind.append(f"processes of no known placement run here: {pids}")
        else:
            _show(state, uid, placement, strangers, now_s)
    return tuple(blind)


def _show(
    state: State, uid: str, placement: str, strangers: list[processes.Found], now_s: float
) -> None:
    """Make an object of processes whose record was lost."""
    environ = strangers[0].environ
    world_size = environ.get("WORLD_SIZE", "")
    ranks = int(world_size) if world_size.isdigit() else len(strangers)
    spec = GangSpec(
        placement=placement,
        run_key=environ.get("BROKER_RUN_KEY", ""),
        run_name=environ.get("BROKER_RUN", ""),
        queue=environ.get(member.QUEUE, ""),
        flavor=environ.get(member.FLAVOR, ""),
        ranks=ranks,
        accelerator="",
        accelerators_per_node=1,
        command=(),
        env={},
        priority=0,
        gate_timeout_s=1.0,
        stop_grace_s=float(environ.get("BROKER_NOTICE_S", "10")),
        labels={},
    )
    state.jobs[uid] = Job(
        uid=uid,
        name=placement,
        run_key=spec.run_key,
        queue=spec.queue,
        flavor=spec.flavor,
        gpus=spec.gpus,
        nodes_wanted=ranks,
        priority=0,
        turn=state.next_number(),
        queued_s=now_s,
        spec=spec,
        phase=Phase.STANDING,
        cause=Cause.UNKNOWN,
        message="found running without a record",
        admitted_turn=state.next_number(),
        admitted_s=now_s,
        generation=_generation(strangers[-1].member),
        term_grace_s=spec.stop_grace_s,
        members=[
            Member(
                id=process.member,
                rank=int(process.environ.get("RANK", "0")),
                node="",
                pid=process.pid,
                start_ticks=process.start_ticks,
            )
            for process in strangers
        ],
    )
    state.names[placement] = uid


def _generation(member_id: str) -> int:
    parts = member_id.split("-")
    return int(parts[1]) if len(parts) == 3 and parts[1].isdigit() else 1
