"""The metrics, for Prometheus: what waits, what moved, how long, and what failed.

The rule: names say their unit; label values come from closed sets of ours, never from users, so
that no client can make a million series. The one exception is how far regions are behind a run,
by the run's name: the meter bounds how many runs it tells of, and forgets those that end. Read
``Metrics`` first.
"""

from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

_MINUTES = (1, 5, 15, 60, 300, 900, 3_600, 7_200, 18_000, 43_200, 86_400)
_TICK = (0.001, 0.005, 0.02, 0.05, 0.1, 0.5, 2.0, 10.0)
_COMMIT = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 2.0)
_BEHIND = (
    "Training of a live run that a start in the region would repeat, for want of a copy of its"
    " newest checkpoint"
)


class Metrics:
    """All metrics of one daemon, on a registry of its own."""

    def __init__(self) -> None:
        registry = CollectorRegistry()
        self.registry = registry
        counter = partial(Counter, registry=registry)
        gauge = partial(Gauge, registry=registry)
        histogram = partial(Histogram, registry=registry)
        self.events = counter("broker_events", "Events written, by type", ["type"])
        self.refused = counter("broker_commands_refused", "Commands refused, by reason", ["reason"])
        self.calls_refused = counter(
            "broker_calls_refused",
            "Calls from other machines that were not let in, by reason",
            ["reason"],
        )
        self.commit_seconds = histogram(
            "broker_log_commit_seconds",
            "From a command's arrival at the log to its fsync",
            buckets=_COMMIT,
        )
        self.wait_seconds = histogram(
            "broker_wait_seconds",
            "How long placements stood in a phase before they started",
            ["phase"],
            buckets=_MINUTES,
        )
        self.time_to_useful_work_seconds = histogram(
            "broker_time_to_useful_work_seconds",
            "From submit to the first training step",
            buckets=_MINUTES,
        )
        self.runs = gauge("broker_runs", "Live runs, by state and reason", ["state", "reason"])
        self.live_cost = gauge(
            "broker_live_runs_cost_dollars",
            "What the live runs have cost so far, by whether their gang had started or stood idle",
            ["doing"],
        )
        self.paid_gpus = gauge(
            "broker_paid_gpus",
            "GPUs that are paid for now, by whether their gang has started or stands idle",
            ["doing"],
        )
        self.grants = counter("broker_grants", "Epochs opened")
        self.withdrawals = counter(
            "broker_withdrawals", "Placements taken out, by reason", ["reason"]
        )
        self.seals = counter("broker_seals", "Epochs closed, by rule", ["rule"])
        self.forecast_ratio = histogram(
            "broker_forecast_ratio",
            "Time to the gate over the forecast's median (1 is a right forecast)",
            buckets=(0.1, 0.25, 0.5, 0.8, 1.0, 1.25, 2.0, 4.0, 10.0),
        )
        self.tick_seconds = histogram(
            "broker_tick_seconds", "How long a tick took", ["loop"], buckets=_TICK
        )
        self.failures = counter("broker_task_failures", "What raised, by task", ["task"])
        self.cluster_silent_seconds = gauge(
            "broker_cluster_silent_seconds",
            "For how long a cluster has not answered; 0 while it does",
            ["cluster"],
        )
        self.log_writable = gauge(
            "broker_log_writable", "1 while the log takes writes, 0 while the disk refuses them"
        )
        self.unknown_words = counter(
            "broker_unknown_words",
            "What a cluster said that the broker has no word for, by where it was said",
            ["cluster", "where"],
        )
        self.behind_seconds = gauge("broker_checkpoint_behind_seconds", _BEHIND, ["run", "region"])
        self.orphans = gauge("broker_orphans", "What a cluster holds of no run", ["cluster"])

    def serve(self, host: str, port: int) -> None:
        """Answer scrapes on a loopback address, on a thread of its own."""
        start_http_server(port, addr=host, registry=self.registry)
