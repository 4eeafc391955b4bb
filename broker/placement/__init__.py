"""Where a run could start, at what price and how soon: pure functions of a view."""
