"""A small language model, trained on real text by a gang of processes. Read `train` first.

The text, `opticks.txt`, is the beginning of Isaac Newton's *Opticks*, fourth edition, 1730, which
is in the public domain: its first forty-six thousand characters, without figures and emphasis.
The directory is a bundle as it is: `python3 train.py` in it needs numpy and
`broker.sdk.training` alone.
"""
