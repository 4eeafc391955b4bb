"""The rules of the house that can be measured, each with a planted fault that it must catch."""
