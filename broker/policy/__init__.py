"""What time and bad news call for: (view, run, facts, now) in, commands of the log out.

The rule: every verdict rests on evidence that is named in it, a limit that cannot be kept is said
before it is reached, and nothing here acts. Read ``judge.judge`` first; each other file is one
topic of it: waits, content, grants, gates, gangs that fail, verdicts, regions, limits.
"""
