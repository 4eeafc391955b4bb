"""Which intents are accepted: ``problems(intent)`` names each field that is not, and why.

The rule: every field has a limit, so that nothing a user sends can be too long to store, too large
to compute with, or impossible to run. Paths are those of the proto, such as
``intent.workload.hardware[0].nodes``. What takes the network is not judged here.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from broker.model.checks import (
    Problem,
    check_count,
    check_decimal,
    check_distinct,
    check_name,
    check_number,
    check_text,
    check_whole,
)
from broker.model.intent import HardwareOption, Input, Intent, SecretRef, Terms, Workload
from broker.model.names import is_id
from broker.model.placeholders import unfilled
from broker.model.reasons import Reason

HARDWARE_MAX = 16  # options; each is compared with every flavor
NODES_MAX = 1024
PER_NODE_MAX = 64
ARGUMENTS_MAX = 256
ARGUMENT_BYTES_MAX = 16_384
ENV_MAX = 256
ENV_BYTES_MAX = 65_536  # all names and values: they travel in one object of a cluster
INPUTS_MAX = 64
SECRETS_MAX = 32
REGIONS_MAX = 64
LABELS_MAX = 64
DURATION_MAX_S = 366 * 86_400.0
RESTARTS_MAX = 10_000
PRIORITY_MAX = 1_000_000
BUDGET_MAX = 100_000_000  # US dollars
SIZE_MAX_BYTES = 2**60
DEADLINE_MAX_WALL_S = 253_402_300_799.0  # the last second of the year 9999

LAUNCHER_NAMES = frozenset({"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"})
LAUNCHER_PREFIX = "BROKER_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the judge knows beside the intent; None leaves the rules out that need it."""

    regions: frozenset[str] | None = None
    now_wall_s: float | None = None


NOTHING_KNOWN = Known()


def problems(intent: Intent, known: Known = NOTHING_KNOWN) -> tuple[Problem, ...]:
    """Return every problem of the intent, none when it is accepted."""
    found = [
        *_intent(intent),
        *_workload(intent.workload),
        *_terms(intent.terms, known),
    ]
    return tuple(found)


def _intent(intent: Intent) -> Iterator[Problem]:
    if not is_id(intent.team):
        yield Problem(field="parent", message="a team is lower-case letters, digits and '-'")
    yield from check_text("intent.owner", intent.owner, 0, 100)
    yield from check_count("intent.labels", len(intent.labels), 0, LABELS_MAX)
    yield from check_distinct("intent.labels", [key for key, _ in intent.labels])
    for key, value in intent.labels:
        yield from check_name("intent.labels", key, "LABEL")
        yield from check_text(f'intent.labels["{key[:63]}"]', value, 0, 256)


def _workload(workload: Workload) -> Iterator[Problem]:
    at = "intent.workload"
    yield from _command(workload)
    yield from check_count(f"{at}.hardware", len(workload.hardware), 1, HARDWARE_MAX)
    for index, option in enumerate(workload.hardware):
        yield from _hardware(f"{at}.hardware[{index}]", option)
    yield from check_distinct(f"{at}.hardware", list(workload.hardware))
    yield from check_text(f"{at}.image", workload.image, 0, 1024)
    if workload.image.strip() != workload.image or " " in workload.image:
        yield Problem(field=f"{at}.image", message="an image reference holds no blank")
    if workload.bundle_digest:
        yield from check_name(f"{at}.bundle_digest", workload.bundle_digest, "SHA256")
    if workload.service_account:
        yield from check_name(f"{at}.service_account", workload.service_account, "OBJECT")
    yield from check_whole(f"{at}.resources.cpu_millis", workload.resources.cpu_millis, 0, 10**7)
    yield from check_whole(
        f"{at}.resources.memory_bytes", workload.resources.memory_bytes, 0, SIZE_MAX_BYTES
    )
    yield from _env(workload)
    yield from check_count(f"{at}.secrets", len(workload.secrets), 0, SECRETS_MAX)
    for index, secret in enumerate(workload.secrets):
        yield from _secret(f"{at}.secrets[{index}]", secret)
    yield from check_count(f"{at}.inputs", len(workload.inputs), 0, INPUTS_MAX)
    for index, source in enumerate(workload.inputs):
        yield from _input(f"{at}.inputs[{index}]", source)
    yield from _saving(workload)


def _command(workload: Workload) -> Iterator[Problem]:
    at = "intent.workload.command"
    yield from check_count(at, len(workload.command), 1, ARGUMENTS_MAX)
    if workload.command and not workload.command[0]:
        yield Problem(field=f"{at}[0]", message="the program has no name")
    for index, argument in enumerate(workload.command):
        yield from check_text(f"{at}[{index}]", argument, 0, ARGUMENT_BYTES_MAX, is_one_line=False)
        yield from _placeholders(f"{at}[{index}]", argument)


def _env(workload: Workload) -> Iterator[Problem]:
    at = "intent.workload.env"
    yield from check_count(at, len(workload.env), 0, ENV_MAX)
    # A lone surrogate is counted here and refused below.
    size = sum(len((name + text).encode("utf-8", "surrogatepass")) for name, text in workload.env)
    yield from check_count(at, size, 0, ENV_BYTES_MAX, "bytes")
    shown = [secret.env for secret in workload.secrets if secret.env]
    yield from check_distinct(at, [*(name for name, _ in workload.env), *shown])
    for name, text in workload.env:
        yield from _env_name(at, name)
        yield from check_text(f'{at}["{name[:63]}"]', text, 0, ENV_BYTES_MAX, is_one_line=False)
        yield from _placeholders(f'{at}["{name[:63]}"]', text)


def _env_name(at: str, name: str) -> Iterator[Problem]:
    yield from check_name(at, name, "ENV")
    if name in LAUNCHER_NAMES or name.startswith(LAUNCHER_PREFIX):
        yield Problem(field=at, message=f"{name[:63]} is set by the launcher")


def _placeholders(at: str, text: str) -> Iterator[Problem]:
    for name in unfilled(text):
        if name in LAUNCHER_NAMES or name.startswith(LAUNCHER_PREFIX):
            continue
        message = f"${{{name[:63]}}} is not filled in, and nothing fills it in at run time"
        yield Problem(field=at, message=message)


def _hardware(at: str, option: HardwareOption) -> Iterator[Problem]:
    yield from check_name(f"{at}.accelerator", option.accelerator, "LABEL")
    yield from check_whole(
        f"{at}.accelerators_per_node", option.accelerators_per_node, 1, PER_NODE_MAX
    )
    yield from check_whole(f"{at}.nodes", option.nodes, 1, NODES_MAX)
    yield from check_number(f"{at}.relative_speed", option.relative_speed, 0.001, 1000.0)


def _secret(at: str, secret: SecretRef) -> Iterator[Problem]:
    yield from check_name(f"{at}.name", secret.name, "OBJECT")
    if not secret.env and not secret.mount_path:
        yield Problem(field=at, message="a secret is shown by env, by mount_path, or by both")
    if secret.env:
        yield from _env_name(f"{at}.env", secret.env)
    if secret.mount_path:
        yield from check_text(f"{at}.mount_path", secret.mount_path, 1, 1024)
        parts = secret.mount_path.split("/")
        if not secret.mount_path.startswith("/") or ".." in parts:
            message = "a mount path is absolute and climbs nowhere"
            yield Problem(field=f"{at}.mount_path", message=message)


def _input(at: str, source: Input) -> Iterator[Problem]:
    yield from check_text(f"{at}.uri", source.uri, 1, 2048)
    if "://" not in source.uri:
        yield Problem(field=f"{at}.uri", message="a URI begins with a scheme, as gs://")
    yield from check_whole(f"{at}.size_bytes", source.size_bytes, 0, SIZE_MAX_BYTES)
    yield from _regions(f"{at}.regions", source.regions, None)


def _saving(workload: Workload) -> Iterator[Problem]:
    at = "intent.workload.checkpoint"
    saving = workload.checkpoint
    if saving.interval_s is not None:
        yield from check_number(f"{at}.interval", saving.interval_s, 0.001, DURATION_MAX_S)
    yield from check_whole(f"{at}.keep_last", saving.keep_last, 1, 1000)
    if saving.keep_every_steps is not None:
        yield from check_whole(f"{at}.keep_every_steps", saving.keep_every_steps, 1, 2**53)
    progress = workload.progress
    if progress.timeout_s is not None:
        yield from check_number(
            "intent.workload.progress.timeout", progress.timeout_s, 0.001, DURATION_MAX_S
        )
    yield from check_name("intent.workload.progress.loss_field", progress.loss_field, "LABEL")


def _terms(terms: Terms, known: Known) -> Iterator[Problem]:
    at = "intent.terms"
    yield from check_count(f"{at}.capacity_types", len(terms.capacity_types), 1, 4)
    yield from check_distinct(f"{at}.capacity_types", list(terms.capacity_types))
    yield from _regions(f"{at}.regions", terms.regions, known.regions)
    yield from _residency(terms)
    for name, seconds in (
        ("max_wait", terms.max_wait_s),
        ("max_requeue_wait", terms.max_requeue_wait_s),
        ("expected_duration", terms.expected_duration_s),
    ):
        if seconds is not None:
            yield from check_number(f"{at}.{name}", seconds, 0.001, DURATION_MAX_S)
    yield from _deadline(terms, known)
    if terms.budget is not None:
        yield from check_decimal(f"{at}.budget", terms.budget, BUDGET_MAX)
    yield from check_whole(f"{at}.priority", terms.priority, -PRIORITY_MAX, PRIORITY_MAX)
    limits = terms.limits
    yield from check_whole(f"{at}.limits.user_restarts", limits.user_restarts, 0, RESTARTS_MAX)
    yield from check_whole(
        f"{at}.limits.infrastructure_losses", limits.infrastructure_losses, 0, RESTARTS_MAX
    )


def _deadline(terms: Terms, known: Known) -> Iterator[Problem]:
    if terms.deadline_wall_s is None:
        return
    at = "intent.terms.deadline"
    yield from check_number(at, terms.deadline_wall_s, 0.0, DEADLINE_MAX_WALL_S)
    if known.now_wall_s is not None and terms.deadline_wall_s <= known.now_wall_s:
        message = "the deadline has passed"
        yield Problem(field=at, message=message, reason=Reason.DEADLINE_PASSED)


def _residency(terms: Terms) -> Iterator[Problem]:
    at = "intent.terms.residency"
    yield from _regions(at, terms.residency, None)
    for index, region in enumerate(terms.regions):
        if not terms.keeps_residency(region):
            message = f"{region[:63]} lies outside the residency"
            yield Problem(
                field=f"intent.terms.regions[{index}]", message=message, reason=Reason.RESIDENCY
            )


def _regions(at: str, regions: tuple[str, ...], known: frozenset[str] | None) -> Iterator[Problem]:
    yield from check_count(at, len(regions), 0, REGIONS_MAX)
    yield from check_distinct(at, list(regions))
    for index, region in enumerate(regions):
        if not is_id(region):
            message = "a region is lower-case letters, digits and '-'"
            yield Problem(field=f"{at}[{index}]", message=message)
        elif known is not None and region not in known:
            message = f"there is no region {region}"
            yield Problem(field=f"{at}[{index}]", message=message)
