"""The command line: what it can do, any client can do."""
