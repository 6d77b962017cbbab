"""Baselines of pretraining: objectives that the papers are compared with."""
