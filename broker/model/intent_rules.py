"""Which intents are accepted: ``problems(intent)`` names each field that is not, and why.

The rule: every field has a limit, so that nothing a user sends can be too long to store, too large
to compute with, or impossible to run; of a list that is too long no more is looked at than one may
hold. Paths are those of the proto, such as ``intent.workload.hardware[0].nodes``. What takes the
network is not judged here.
"""

from dataclasses import dataclass
from itertools import islice

from broker.model.checks import (
    Problem,
    check_count,
    check_decimal,
    check_distinct,
    check_name,
    check_number,
    check_seconds,
    check_text,
    check_whole,
)
from broker.model.intent import (
    HardwareOption,
    Input,
    Intent,
    SecretRef,
    Terms,
    Workload,
    lies_within,
)
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
REGIONS_TOLD = 10  # in a sentence
PLACEHOLDERS_TOLD = 8  # of one text: what lacks its values lacks the most of them
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


def _intent(intent: Intent) -> list[Problem]:
    found: list[Problem] = []
    if not is_id(intent.team):
        found.append(
            Problem(field="parent", message="a team is lower-case letters, digits and '-'")
        )
    found += check_text("intent.owner", intent.owner, 0, 100)
    found += check_count("intent.labels", len(intent.labels), 0, LABELS_MAX)
    found += check_distinct("intent.labels", [key for key, _ in intent.labels])
    for key, value in intent.labels[:LABELS_MAX]:
        found += check_name("intent.labels", key, "LABEL")
        found += check_text(f'intent.labels["{key[:63]}"]', value, 0, 256)
    return found


def _workload(workload: Workload) -> list[Problem]:
    found: list[Problem] = []
    at = "intent.workload"
    found += _command(workload)
    found += check_count(f"{at}.hardware", len(workload.hardware), 1, HARDWARE_MAX)
    for index, option in enumerate(workload.hardware[:HARDWARE_MAX]):
        found += _hardware(f"{at}.hardware[{index}]", option)
    found += check_distinct(f"{at}.hardware", list(workload.hardware))
    found += check_text(f"{at}.image", workload.image, 0, 1024)
    if workload.image.strip() != workload.image or " " in workload.image:
        found.append(Problem(field=f"{at}.image", message="an image reference holds no blank"))
    if workload.bundle_digest:
        found += check_name(f"{at}.bundle_digest", workload.bundle_digest, "SHA256")
    if workload.service_account:
        found += check_name(f"{at}.service_account", workload.service_account, "OBJECT")
    found += check_whole(f"{at}.resources.cpu_millis", workload.resources.cpu_millis, 0, 10**7)
    found += check_whole(
        f"{at}.resources.memory_bytes", workload.resources.memory_bytes, 0, SIZE_MAX_BYTES
    )
    found += _env(workload)
    found += check_count(f"{at}.secrets", len(workload.secrets), 0, SECRETS_MAX)
    for index, secret in enumerate(workload.secrets[:SECRETS_MAX]):
        found += _secret(f"{at}.secrets[{index}]", secret)
    found += check_count(f"{at}.inputs", len(workload.inputs), 0, INPUTS_MAX)
    for index, source in enumerate(workload.inputs[:INPUTS_MAX]):
        found += _input(f"{at}.inputs[{index}]", source)
    found += _saving(workload)
    return found


def _command(workload: Workload) -> list[Problem]:
    found: list[Problem] = []
    at = "intent.workload.command"
    found += check_count(at, len(workload.command), 1, ARGUMENTS_MAX)
    if workload.command and not workload.command[0]:
        found.append(Problem(field=f"{at}[0]", message="the program has no name"))
    for index, argument in enumerate(workload.command[:ARGUMENTS_MAX]):
        found += check_text(f"{at}[{index}]", argument, 0, ARGUMENT_BYTES_MAX, is_one_line=False)
        found += _placeholders(f"{at}[{index}]", argument)
    return found


def _env(workload: Workload) -> list[Problem]:
    found: list[Problem] = []
    at = "intent.workload.env"
    if not workload.env and not workload.secrets:
        return found
    found += check_count(at, len(workload.env), 0, ENV_MAX)
    # A lone surrogate is counted here and refused below.
    size = sum(len((name + text).encode("utf-8", "surrogatepass")) for name, text in workload.env)
    found += check_count(at, size, 0, ENV_BYTES_MAX, "bytes")
    shown = [secret.env for secret in workload.secrets if secret.env]
    found += check_distinct(at, [*(name for name, _ in workload.env), *shown])
    for name, text in workload.env[:ENV_MAX]:
        found += _env_name(at, name)
        found += check_text(f'{at}["{name[:63]}"]', text, 0, ENV_BYTES_MAX, is_one_line=False)
        found += _placeholders(f'{at}["{name[:63]}"]', text)
    return found


def _env_name(at: str, name: str) -> list[Problem]:
    found: list[Problem] = []
    found += check_name(at, name, "ENV")
    if name in LAUNCHER_NAMES or name.startswith(LAUNCHER_PREFIX):
        found.append(Problem(field=at, message=f"{name[:63]} is set by the launcher"))
    return found


def _placeholders(at: str, text: str) -> list[Problem]:
    found: list[Problem] = []
    if "$" not in text:
        return found
    strange = (
        name
        for name in unfilled(text)
        if name not in LAUNCHER_NAMES and not name.startswith(LAUNCHER_PREFIX)
    )
    for name in islice(strange, PLACEHOLDERS_TOLD):
        message = f"${{{name[:63]}}} is not filled in, and nothing fills it in at run time"
        found.append(Problem(field=at, message=message))
    return found


def _hardware(at: str, option: HardwareOption) -> list[Problem]:
    found: list[Problem] = []
    found += check_name(f"{at}.accelerator", option.accelerator, "LABEL")
    found += check_whole(
        f"{at}.accelerators_per_node", option.accelerators_per_node, 1, PER_NODE_MAX
    )
    found += check_whole(f"{at}.nodes", option.nodes, 1, NODES_MAX)
    found += check_number(f"{at}.relative_speed", option.relative_speed, 0.001, 1000.0)
    return found


def _secret(at: str, secret: SecretRef) -> list[Problem]:
    found: list[Problem] = []
    found += check_name(f"{at}.name", secret.name, "OBJECT")
    if not secret.env and not secret.mount_path:
        found.append(
            Problem(field=at, message="a secret is shown by env, by mount_path, or by both")
        )
    if secret.env:
        found += _env_name(f"{at}.env", secret.env)
    if secret.mount_path:
        found += check_text(f"{at}.mount_path", secret.mount_path, 1, 1024)
        parts = secret.mount_path.split("/")
        if not secret.mount_path.startswith("/") or ".." in parts:
            message = "a mount path is absolute and climbs nowhere"
            found.append(Problem(field=f"{at}.mount_path", message=message))
    return found


def _input(at: str, source: Input) -> list[Problem]:
    found: list[Problem] = []
    found += check_text(f"{at}.uri", source.uri, 1, 2048)
    if "://" not in source.uri:
        found.append(Problem(field=f"{at}.uri", message="a URI begins with a scheme, as gs://"))
    found += check_whole(f"{at}.size_bytes", source.size_bytes, 0, SIZE_MAX_BYTES)
    found += _regions(f"{at}.regions", source.regions, None)
    return found


def _saving(workload: Workload) -> list[Problem]:
    found: list[Problem] = []
    at = "intent.workload.checkpoint"
    saving = workload.checkpoint
    if saving.interval_s is not None:
        found += check_seconds(f"{at}.interval", saving.interval_s, DURATION_MAX_S)
    found += check_whole(f"{at}.keep_last", saving.keep_last, 1, 1000)
    if saving.keep_every_steps is not None:
        found += check_whole(f"{at}.keep_every_steps", saving.keep_every_steps, 1, 2**53)
    progress = workload.progress
    if progress.timeout_s is not None:
        found += check_seconds(
            "intent.workload.progress.timeout", progress.timeout_s, DURATION_MAX_S
        )
    found += check_name("intent.workload.progress.loss_field", progress.loss_field, "LABEL")
    return found


def _terms(terms: Terms, known: Known) -> list[Problem]:
    found: list[Problem] = []
    at = "intent.terms"
    found += check_count(f"{at}.capacity_types", len(terms.capacity_types), 1, 4)
    found += check_distinct(f"{at}.capacity_types", list(terms.capacity_types))
    found += _regions(f"{at}.regions", terms.regions, known.regions)
    found += _residency(terms, known)
    for name, seconds in (
        ("max_wait", terms.max_wait_s),
        ("max_requeue_wait", terms.max_requeue_wait_s),
        ("expected_duration", terms.expected_duration_s),
    ):
        if seconds is not None:
            found += check_seconds(f"{at}.{name}", seconds, DURATION_MAX_S)
    found += _deadline(terms, known)
    if terms.budget is not None:
        found += check_decimal(f"{at}.budget", terms.budget, BUDGET_MAX)
    if terms.copies_budget is not None:
        found += check_decimal(f"{at}.copies_budget", terms.copies_budget, BUDGET_MAX)
    found += check_whole(f"{at}.priority", terms.priority, -PRIORITY_MAX, PRIORITY_MAX)
    limits = terms.limits
    found += check_whole(f"{at}.limits.user_restarts", limits.user_restarts, 0, RESTARTS_MAX)
    found += check_whole(
        f"{at}.limits.infrastructure_losses", limits.infrastructure_losses, 0, RESTARTS_MAX
    )
    return found


def _deadline(terms: Terms, known: Known) -> list[Problem]:
    found: list[Problem] = []
    if terms.deadline_wall_s is None:
        return found
    at = "intent.terms.deadline"
    found += check_number(at, terms.deadline_wall_s, 0.0, DEADLINE_MAX_WALL_S)
    if known.now_wall_s is not None and terms.deadline_wall_s <= known.now_wall_s:
        message = "the deadline has passed"
        found.append(Problem(field=at, message=message, reason=Reason.DEADLINE_PASSED))
    return found


def _residency(terms: Terms, known: Known) -> list[Problem]:
    found: list[Problem] = []
    at = "intent.terms.residency"
    found += check_count(at, len(terms.residency), 0, REGIONS_MAX)
    found += check_distinct(at, list(terms.residency))
    for index, word in enumerate(terms.residency[:REGIONS_MAX]):
        if not is_id(word):
            message = "whole words of a region's name, as europe of europe-west1; none ends in '-'"
            found.append(Problem(field=f"{at}[{index}]", message=message))
    there_are = known.regions if terms.residency else None
    if there_are is not None and not any(lies_within(r, terms.residency) for r in there_are):
        there = ", ".join(sorted(there_are)[:REGIONS_TOLD])
        message = f"no region lies within {', '.join(terms.residency)[:63]}; there are: {there}"
        found.append(Problem(field=at, message=message, reason=Reason.RESIDENCY))
    for index, region in enumerate(terms.regions[:REGIONS_MAX]):
        if not terms.keeps_residency(region):
            message = f"{region[:63]} lies outside the residency"
            found.append(
                Problem(
                    field=f"intent.terms.regions[{index}]", message=message, reason=Reason.RESIDENCY
                )
            )
    return found


def _regions(at: str, regions: tuple[str, ...], known: frozenset[str] | None) -> list[Problem]:
    found: list[Problem] = []
    found += check_count(at, len(regions), 0, REGIONS_MAX)
    found += check_distinct(at, list(regions))
    for index, region in enumerate(regions[:REGIONS_MAX]):
        if not is_id(region):
            message = "a region is lower-case letters, digits and '-'"
            found.append(Problem(field=f"{at}[{index}]", message=message))
        elif known is not None and region not in known:
            message = f"there is no region {region}; there are: {', '.join(sorted(known))}"
            found.append(Problem(field=f"{at}[{index}]", message=message))
    return found
