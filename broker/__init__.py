"""The control plane: takes an intent and answers for where and when it runs."""
