"""The privacy officer's page: what private rounds promise, what they cost, what attacks find."""

__all__ = ["EXPERIMENTAL"]

EXPERIMENTAL = "Experimental; not reviewed by an outside cryptographer."
