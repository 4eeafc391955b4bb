"""What ``--output json`` prints, verb by verb. It is stable: scripts may rely on it.

The rule: a message of ``broker.v1`` is printed with the proto's field names, as ``sdk.showing``
says; whatever else is printed is a map whose keys stand here; keys are only ever added. Read
``ANSWERS`` first.
"""

_FOLLOWED = "one line each: {event: Event} or {progress: Progress}"
_RUN = "Run"
_REGION = "Region"
_CHECKPOINT = "Checkpoint"
_FAULT = "{message}"

ANSWERS: dict[str, str] = {
    "login": "{server, caller: Caller}",
    "logout": "{server}",
    "init": "{path}",
    "submit": f"{_RUN}; with --validate-only SubmitRunResponse; with --wait {_FOLLOWED}",
    "estimate": "SubmitRunResponse",
    "simulate": "{variants: [{terms, error, why_nowhere, estimate: Estimate}]}",
    "status": f"{_RUN}; without RUN ListRunsResponse",
    "run show": f"{_RUN}; with --manifest GetManifestResponse",
    "explain": "ExplainRunResponse",
    "ls": "ListRunsResponse",
    "watch": _FOLLOWED,
    "logs": "one line each: {placement, rank, text}",
    "timeline": "GetTimelineResponse",
    "cost": "{name, spending: Spending, placements: [PlacementSpending], cost};"
    " without RUN {team: Team, runs: [{name, spending: Spending}]}",
    "compare": "{runs: [Run]}",
    "replicas": "ListReplicasResponse",
    "checkpoints list": "ListCheckpointsResponse",
    "checkpoints mark": _CHECKPOINT,
    "checkpoints pin": _CHECKPOINT,
    "checkpoints label": _CHECKPOINT,
    "checkpoints fetch": "{path, files, size_bytes}; with --where {path}",
    "cancel": f"{_RUN}; with --wait {_FOLLOWED}",
    "resume": f"{_RUN}; with --wait {_FOLLOWED}",
    "amend": _RUN,
    "fork": f"{_RUN}; with --wait {_FOLLOWED}",
    "replace": _RUN,
    "regions list": "ListRegionsResponse",
    "regions show": _REGION,
    "regions cordon": _REGION,
    "regions uncordon": _REGION,
    "regions drain": _REGION,
    "regions waive": _REGION,
    "regions accept-store": _REGION,
    "regions bootstrap": "{objects: [{file, manifest, grants}]};"
    " with --apply or --remove {steps: [{object, state, said}]}",
    "policy get": "Policy",
    "policy set": "Policy",
    "policy edit": "Policy; nothing when it was left as it is",
    "team list": "{teams: [Team]}",
    "team show": "Team",
    "team caps": "Team",
    "orphans list": "{orphans: [{region, cluster, object, message, ours, removing}]}",
    "orphans remove": _REGION,
    "cleanup": "{left: [{kind, what, said}]}",
    "doctor": "{checks: [{what, is_well, said}]}",
    "local stockout": _FAULT,
    "local partial": _FAULT,
    "local preempt": _FAULT,
    "local outage": _FAULT,
    "local slow": _FAULT,
    "local restore": _FAULT,
    "completion": "the script all the same",
}
