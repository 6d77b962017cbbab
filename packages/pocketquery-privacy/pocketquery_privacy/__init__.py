"""What private rounds cost and carry: a plan before they run, an officer's page of what ran."""

__all__ = ["EXPERIMENTAL"]

EXPERIMENTAL = "Experimental; not reviewed by an outside cryptographer."
