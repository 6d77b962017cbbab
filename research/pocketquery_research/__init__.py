"""Baselines, studies and recipes around pocketquery."""
