"""The shell around the pure rooms: agents that look, decide by calling one of them, and then act.

The rule: read, decide purely, write down, only then act; a crash between any two lines is repaired
by the next tick. Every agent is a class whose ``tick`` can be called by hand, in any order and any
number of times: nothing here sleeps, draws chance or reads a clock that it was not given.
Read ``engine.py`` first, for who there is.
"""
