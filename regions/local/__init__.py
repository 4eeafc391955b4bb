"""The embedded cluster: real processes in real gangs on this machine."""
