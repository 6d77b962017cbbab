"""Whether a key that registers belongs to a genuine app: the plug-in's interface, two platforms'
evidence, and how a gateway asks.
"""

from pocketquery.server.gateway.attestation.interface import (
    Attestation,
    AttestationError,
    binding,
    load_attestation,
)

__all__ = ["Attestation", "AttestationError", "binding", "load_attestation"]
