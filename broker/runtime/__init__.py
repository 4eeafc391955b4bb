"""Clock, entropy, tasks, logs and metrics: what pure code is handed."""
