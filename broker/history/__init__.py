"""What happened and what follows from it: commands, events, decide, evolve. Pure.

The rule: every change of a run, region or team is an event that ``decide`` returned and
``evolve`` folds; nothing here reads a clock, draws chance or does I/O. Read ``decide.py`` first.
"""
