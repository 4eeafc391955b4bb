"""The embedded cluster: real processes in real gangs on this machine.

A process of its own per cluster (``python -m regions.local``), with its state on disk, reached over
a Unix socket. Killing brokerd touches no gang; killing a cluster is an outage and nothing more.

    client.py    the port, as brokerd holds it: the socket for the cluster, the store for the rest
    daemon.py    the shell: decide, write down, then act on processes
    world.py     what time, commands and faults do to the cluster: pure, over state.py
      intake.py  commands; harm.py: faults; quota.py: who may be admitted; nodes.py: machines that
                 come or do not; gangs.py: members
    processes.py sessions, pidfds, trees; output.py: logs with a limit; disk.py: the directory
    spawn.py     clusters started beside a broker, found again, ended
"""
