"""Rounds over simulated devices, in this process."""
