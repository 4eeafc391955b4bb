"""The start protocol, explored state by state on the production rules. Read ``moves`` first."""
