"""Google Cloud Storage on this machine: its JSON API over HTTP, for real clients.

The rule it keeps: where the real thing can refuse, it refuses. Preconditions hold on every call,
a rewrite between locations takes as many calls as it has mebibytes and judges the destination's
preconditions at the last one, and a checksum that does not fit is a 400. ``test_gcs_fake`` is its
behaviour as a table. Read ``serve`` first.
"""

from tests.fakes.gcs.faults import CUT, HALF, LOST, WRONG, Faults
from tests.fakes.gcs.server import FakeGcs, serve

__all__ = ["CUT", "HALF", "LOST", "WRONG", "FakeGcs", "Faults", "serve"]
