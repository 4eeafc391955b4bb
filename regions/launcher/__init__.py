"""The program that stands in front of the user's command: standard library only."""
