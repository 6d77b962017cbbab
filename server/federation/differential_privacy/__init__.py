"""Differential privacy: what noise costs, correlated noise, and the budget of a season."""
