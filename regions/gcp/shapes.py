"""Machine types with accelerators, and what is in each. Pure.

The rule: a machine that is not in the table has no price here, for a price of its accelerators
alone would be too low. Read ``Shape`` first. Source: Google's machine type list of August 2026.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One machine type. ``host`` is what the billing catalog calls its cores and memory, empty
    where the accelerator's price includes them. Sizes in GiB; the local disks come with it."""

    machine: str
    accelerator: str
    accelerators: int
    host: str
    cores: int
    memory_gib: int
    local_ssd_gib: int = 0


def _shapes() -> list[Shape]:
    found = [
        *_row("a2-highgpu-{}g", "A100", "A2", {1: (12, 85), 2: (24, 170), 4: (48, 340)}),
        *_row("a2-highgpu-{}g", "A100", "A2", {8: (96, 680)}),
        *_row("a2-megagpu-{}g", "A100", "A2", {16: (96, 1360)}),
        *_row(
            *("a2-ultragpu-{}g", "A100-80GB", "A2"),
            {1: (12, 170), 2: (24, 340), 4: (48, 680), 8: (96, 1360)},
            ssd_gib_each=375,
        ),
        *_row(
            *("a3-highgpu-{}g", "H100", "A3"),
            {1: (26, 234), 2: (52, 468), 4: (104, 936), 8: (208, 1872)},
            ssd_gib_each=750,
        ),
        *_row("a3-megagpu-{}g", "H100-MEGA", "A3Plus", {8: (208, 1872)}, ssd_gib_each=750),
        # Its disks are 32 of 375 GiB, twice what the other machines of the family have.
        *_row("a3-ultragpu-{}g", "H200", "A3Ultra", {8: (224, 2952)}, ssd_gib_each=1500),
        *_row("a3-ultragpu-{}g-nolssd", "H200", "A3Ultra", {8: (224, 2952)}),
        # A slice of its accelerators is sold with cores, memory and disks.
        *_row("a4-highgpu-{}g", "B200", "", {8: (224, 3968)}),
    ]
    for cores, count in {4: 1, 8: 1, 12: 1, 16: 1, 24: 2, 32: 1, 48: 4, 96: 8}.items():
        found.append(
            Shape(
                machine=f"g2-standard-{cores}",
                accelerator="L4",
                accelerators=count,
                host="G2",
                cores=cores,
                memory_gib=cores * 4,
            )
        )
    return found


def _row(
    form: str,
    accelerator: str,
    host: str,
    sizes: Mapping[int, tuple[int, int]],
    *,
    ssd_gib_each: int = 0,
) -> list[Shape]:
    return [
        Shape(
            machine=form.format(count),
            accelerator=accelerator,
            accelerators=count,
            host=host,
            cores=cores,
            memory_gib=memory_gib,
            local_ssd_gib=count * ssd_gib_each,
        )
        for count, (cores, memory_gib) in sizes.items()
    ]


SHAPES: Mapping[str, Shape] = {each.machine: each for each in _shapes()}
"""Every known shape by its machine type."""
