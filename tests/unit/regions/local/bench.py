"""A world without processes: the test is the shell, and owns the time."""

from dataclasses import dataclass, field
from decimal import Decimal

from regions.cluster import Cause, Outcome
from regions.local.config import (
    FlavorConfig,
    QueueConfig,
    QuotaConfig,
    ScheduledFault,
    WorldConfig,
)
from regions.local.faults import Restore, WorldFault
from regions.local.nodes import warm
from regions.local.state import GangSpec, Job, Phase, State, WithdrawOrder
from regions.local.world import World


def make_flavor(**changes: object) -> FlavorConfig:
    """A spot flavor of one GPU a node, whose nodes take ten seconds."""
    fields: dict[str, object] = {
        "name": "h100",
        "accelerator": "H100",
        "capacity_type": "SPOT",
        "max_nodes": 8,
        "startup_s": 10.0,
        "scale_down_s": 60.0,
        "price_per_gpu_hour": Decimal("2.5"),
    }
    return FlavorConfig(**(fields | changes))  # type: ignore[arg-type]


def make_config(
    *,
    flavors: tuple[FlavorConfig, ...] = (),
    nominal: int = 8,
    borrowing_limit: int = 0,
    lent: int = 0,
    schedule: tuple[ScheduledFault, ...] = (),
    keep_ended: int = 50,
) -> WorldConfig:
    """One queue of ours and one of others, with quota of every flavor."""
    flavors = flavors or (make_flavor(),)

    def quotas(nominal: int, limit: int) -> tuple[QuotaConfig, ...]:
        return tuple(
            QuotaConfig(flavor=flavor.name, nominal=nominal, borrowing_limit=limit)
            for flavor in flavors
        )

    return WorldConfig(
        cluster="west",
        region="eu-west4",
        store="/store",
        flavors=flavors,
        queues=(
            QueueConfig(name="ours", quotas=quotas(nominal, borrowing_limit)),
            QueueConfig(name="theirs", quotas=quotas(lent, nominal), is_foreign=True),
        ),
        schedule=schedule,
        keep_ended=keep_ended,
    )


def make_spec(placement: str = "p1", **changes: object) -> GangSpec:
    """A gang of two."""
    fields: dict[str, object] = {
        "placement": placement,
        "run_key": f"run-{placement}",
        "run_name": "teams/t/runs/r",
        "queue": "ours",
        "flavor": "h100",
        "ranks": 2,
        "accelerator": "H100",
        "accelerators_per_node": 1,
        "command": ("train",),
        "env": {},
        "priority": 0,
        "gate_timeout_s": 60.0,
        "stop_grace_s": 5.0,
        "labels": {},
    }
    return GangSpec(**(fields | changes))  # type: ignore[arg-type]


@dataclass(slots=True)
class Bench:
    """The world, its time, and what was done to processes. Processes obey, unless they are
    ``stubborn``: those hear no SIGTERM."""

    config: WorldConfig
    now_s: float = 1000.0
    stubborn: set[str] = field(default_factory=set)
    world: World = field(init=False)

    def __post_init__(self) -> None:
        state = State(boot_id="boot", began_s=self.now_s)
        state.stock = {one.name: one.stock for one in self.config.flavors if one.stock is not None}
        warm(self.config, state, self.now_s)
        numbers = iter(range(1, 1_000_000))
        self.world = World(self.config, state, lambda: f"uid{next(numbers)}")
        self.settle()

    @property
    def state(self) -> State:
        return self.world.state

    def settle(self) -> None:
        """Let the world and its processes come to rest at the present time."""
        for _ in range(20):
            self.world.step(self.now_s)
            if not self._obey():
                return
        raise AssertionError("the world does not come to rest")

    def _obey(self) -> bool:
        was_active = False
        for _, member in self.world.members():
            if member.order == "RUN" and member.pid == 0:
                member.pid, member.start_ticks, was_active = 4242, 1, True
            elif member.order == "KILL" and member.pid:
                self.world.exited(member.id, self.now_s, None, 9)
                was_active = True
            elif member.order == "TERM" and member.pid and not member.is_termed:
                member.is_termed = was_active = True
                if member.id not in self.stubborn:
                    self.world.exited(member.id, self.now_s, 87, None)
        return was_active

    def wait(self, seconds: float) -> None:
        """Let time pass, stopping at each point where something happens by itself."""
        end_s = self.now_s + seconds
        while True:
            next_s = self.world.next_at_s()
            if next_s is None or next_s > end_s:
                break
            assert next_s > self.now_s - 1e-9, "a timer stands still"
            self.now_s = max(self.now_s, next_s)
            self.settle()
            again_s = self.world.next_at_s()
            assert again_s is None or again_s > self.now_s, "a timer is not done with"
        self.now_s = end_s
        self.settle()

    def queue(self, spec: GangSpec) -> Outcome:
        outcome = self.world.queue(spec, self.now_s)
        self.settle()
        return outcome

    def withdraw(self, placement: str, uid: str = "") -> Outcome:
        order = WithdrawOrder(placement=placement, run_key=f"run-{placement}", uid=uid)
        outcome = self.world.withdraw(order, self.now_s)
        self.settle()
        return outcome

    def inject(self, fault: WorldFault | Restore) -> Outcome:
        outcome = self.world.inject(fault, self.now_s)
        self.settle()
        return outcome

    def exit(self, placement: str, exit_code: int) -> None:
        """Let every process of a placement exit by itself."""
        for member in self.job(placement).alive:
            self.world.exited(member.id, self.now_s, exit_code, None)
        self.settle()

    def job(self, placement: str) -> Job:
        return self.state.jobs[self.state.names[placement]]

    def shows(self, placement: str) -> tuple[Phase, Cause]:
        job = self.job(placement)
        return job.phase, job.cause
