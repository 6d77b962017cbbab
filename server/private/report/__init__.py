"""The pages of a privacy officer: what may be said of private rounds, and what attacks find."""
