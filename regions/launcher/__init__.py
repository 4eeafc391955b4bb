"""The small program that stands in front of a training command, and the start protocol it keeps.

Everything here is standard library only and runs on Python 3.8, because it is carried into other
people's images. The broker imports the same rules, so that both sides of the start are one text.
Read ``rules.next_step`` and ``rules.judge`` first.
"""
