"""The log on disk: the only place that knows SQL."""
