"""The figures of real Kueue regions: how soon a run trains, how many at once, and what it asks.

What is compared: our way, a JobSet created straight in a worker cluster, and MultiKueue over the
same three workers; all in the same queue, on the same machines, by the same command, one pod each.
The command's first word ends the measure of each. Read ``sides``, then ``racing``.
"""
