"""The command line: what it can do, any client can do."""

import os

# gRPC reads this when it is first imported, and would write of each handshake that fails among what
# is told to the user.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
