"""A small language model, trained on real text by a gang of processes; see `train`."""
