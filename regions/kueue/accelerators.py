"""Accelerators: which resources they are, and what users call them. Pure.

The rule: the names are those that people of this field write (H100, A100-80GB); a label that is not
in the table keeps its own words, so that ops can use it, and is never guessed to be another.
"""

import re
from collections.abc import Mapping

RESOURCES = ("nvidia.com/gpu", "amd.com/gpu", "google.com/tpu", "habana.ai/gaudi")
"""Resources that are whole accelerators, the most common first."""

TYPE_LABELS = (
    "cloud.google.com/gke-accelerator",
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
)
COUNT_LABELS = ("cloud.google.com/gke-accelerator-count", "nvidia.com/gpu.count")
MACHINE_LABEL = "node.kubernetes.io/instance-type"

_GKE = {
    "nvidia-tesla-t4": "T4",
    "nvidia-tesla-v100": "V100",
    "nvidia-tesla-p100": "P100",
    "nvidia-l4": "L4",
    "nvidia-tesla-a100": "A100",
    "nvidia-a100-80gb": "A100-80GB",
    "nvidia-h100-80gb": "H100",
    "nvidia-h100-mega-80gb": "H100-MEGA",
    "nvidia-h200-141gb": "H200",
    "nvidia-b200": "B200",
    "nvidia-gb200": "GB200",
    "nvidia-gb300": "GB300",
    "nvidia-rtx-pro-6000": "RTX-PRO-6000",
}
_PLAIN = (
    *("H100", "H200", "GH200", "B200", "GB200", "B300", "GB300"),
    *("L4", "L40", "L40S", "A10", "A10G", "T4", "V100"),
)
_PRODUCTS = (
    # As the GPU operator labels them: A100-SXM4-80GB, H100-80GB-HBM3, Tesla-V100-SXM2-16GB.
    (re.compile("A100-.*80GB"), "A100-80GB"),
    (re.compile("A100-.*40GB"), "A100"),
    *((re.compile(f"{each}(?:-.*)?"), each) for each in _PLAIN),
)
_DIVIDED = re.compile(r"-(?:MIG-[0-9]|SHARED)")
_MACHINE_COUNT = re.compile(r"(?:a2|a3|a4)-[a-z]+-([0-9]{1,2})g(?:-nolssd)?")
_G2_COUNT = {4: 1, 8: 1, 12: 1, 16: 1, 24: 2, 32: 1, 48: 4, 96: 8}
_G2 = re.compile(r"g2-standard-([0-9]{1,2})")


def name(labels: Mapping[str, str]) -> str:
    """Return what users call the accelerator of nodes with these labels, empty for untold.

    Of a card that is divided (MIG, time-sharing) a slice is no accelerator of that name: its label
    is kept as it is.
    """
    for key in TYPE_LABELS:
        if label := labels.get(key, ""):
            part = labels.get("cloud.google.com/gke-gpu-partition-size", "")
            return f"{_called(label)}-MIG-{part}" if part else _called(label)
    return ""


def per_node(labels: Mapping[str, str]) -> int | None:
    """Return how many accelerators such a node has by its labels, None when they do not tell."""
    for key in COUNT_LABELS:
        count = labels.get(key, "")
        if count.isascii() and count.isdigit() and 0 < int(count[:4]) <= 64:
            return int(count[:4])
    machine = labels.get(MACHINE_LABEL, "")
    if found := _MACHINE_COUNT.fullmatch(machine):
        return int(found[1])
    if found := _G2.fullmatch(machine):
        return _G2_COUNT.get(int(found[1]))
    return None


def count(amounts: Mapping[str, int]) -> int:
    """Return how many accelerators there are among amounts of resources."""
    return sum(max(0, amounts.get(resource, 0)) for resource in RESOURCES)


def _called(label: str) -> str:
    if label in _GKE:
        return _GKE[label]
    bare = re.sub(r"^(?:NVIDIA-|Tesla-)+", "", label)
    if _DIVIDED.search(bare):
        return bare
    return next((called for form, called in _PRODUCTS if form.fullmatch(bare)), bare)
