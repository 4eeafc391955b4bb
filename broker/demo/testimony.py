"""What a gang says of itself, read where its launchers write it: in its region's store.

The rule: nobody is asked. The files are there whether a broker runs or not, which is what the
demo shows while it has none. Read ``newest_report`` first.
"""

import contextlib
from pathlib import Path

from broker.v1.run_pb2 import Run
from regions.launcher import codec, layout


def newest_report(store: Path, run: Run) -> layout.Report | None:
    """Return the report with the highest step of the run's last start; None when there is none."""
    reports = (_read(path) for path in _files(store, run))
    told = [report for report in reports if report is not None and report.step is not None]
    return max(told, key=lambda report: report.step or 0, default=None)


def _files(store: Path, run: Run) -> list[Path]:
    if not run.epochs:
        return []
    folder = store / layout.RunKeys(run.uid).root / run.epochs[-1].folder / "report"
    return [path for path in folder.glob("*") if path.suffix != ".end"]


def _read(path: Path) -> layout.Report | None:
    with contextlib.suppress(OSError):
        found = codec.read_report(path.read_bytes())
        return found if isinstance(found, layout.Report) else None
    return None
