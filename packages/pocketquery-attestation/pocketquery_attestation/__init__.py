"""Checks that a device which registers at pocketquery's gateway runs a genuine app."""

from pocketquery_attestation.app_attest import AppAttest
from pocketquery_attestation.play_integrity import PlayIntegrity, make_play_integrity

__all__ = ["AppAttest", "PlayIntegrity", "make_play_integrity"]
