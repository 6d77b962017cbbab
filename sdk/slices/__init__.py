"""Slices of an index for readers with different rights, and deltas between its versions."""
