"""Commands, events and states, and the pure functions between them."""
