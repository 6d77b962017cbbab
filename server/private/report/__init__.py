"""The page of a privacy officer: what may be said of private rounds, what they cost, and what
attacks find.
"""

__all__ = ["EXPERIMENTAL"]

EXPERIMENTAL = "Experimental; not reviewed by an outside cryptographer."
