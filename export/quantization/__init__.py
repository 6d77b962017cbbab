"""Quantise to int8: smoothing, quantisation, and the gate that compares its rankings."""
