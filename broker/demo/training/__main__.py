"""`python -m broker.demo.training`: the same program that a bundle runs as `python3 train.py`."""

import sys

from broker.demo.training.train import main

if __name__ == "__main__":
    sys.exit(main())
