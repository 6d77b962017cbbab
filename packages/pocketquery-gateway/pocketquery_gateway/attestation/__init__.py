"""Whether a key that registers is of a genuine app: what a plug-in is, and how it is called."""

from pocketquery_gateway.attestation.interface import (
    Attestation,
    AttestationError,
    binding,
    import_function,
    load_attestation,
)

__all__ = ["Attestation", "AttestationError", "binding", "import_function", "load_attestation"]
