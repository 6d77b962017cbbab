"""Python holds to conformance/secure: private rounds, to the last byte."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

pytest.importorskip("cryptography")  # private rounds need it

from tests.conformance.secure import TARGET, readings

FOUND: dict[str, Any] = json.loads(gzip.decompress(TARGET.read_bytes()))


@pytest.mark.parametrize("name", FOUND)
def test_what_lies_there_is_what_python_computes(name: str) -> None:
    found = readings(name)
    for one in found if name == "costs" else ():  # sums of exp, which not all machines round alike
        one |= {
            part: pytest.approx(one[part], rel=1e-12) for part in ("rho", "epsilon") if part in one
        }
    assert found == FOUND[name]


def test_what_is_refused_is_among_it() -> None:
    """So that a reader that takes everything does not pass."""
    for name in ("boxes", "agreements", "shares", "bindings", "announcements", "certificates"):
        assert {"error" in one for one in FOUND[name]} == {True, False}, name
    assert {one.get("found") for one in FOUND["ready"]} == {True, False, None}
    for part in FOUND["answers"]:
        replies = [one["reply"] for one in part["bodies"]]
        assert replies[0] is not None
        assert None in replies[1:]
