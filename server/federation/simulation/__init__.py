"""Rounds over simulated devices, in this process or on Ray."""
