"""Python holds to conformance/gateway: what devices and gateways say, to the last byte."""

from __future__ import annotations

import base64
import gzip
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pocketquery.client.gateway.messages import read_offer_message
from pocketquery.client.gateway.signing import read_signature, signed_headers
from pocketquery.client.round_memory import RoundMemory
from pocketquery.client.transforms import norm_of
from pocketquery.client.update import bounded_weight, decode_update
from pocketquery.sdk import errors
from pocketquery.sdk.files import sha256_bytes
from tests.conformance.gateway import TARGET, encoded, reciprocals, refusal, unpacked

FOUND: dict[str, Any] = json.loads(gzip.decompress(TARGET.read_bytes()))


@pytest.mark.parametrize("case", FOUND["updates"], ids=lambda case: case["name"])
def test_updates(case: Any) -> None:
    if "error" in case:
        with pytest.raises(errors.PocketQueryError) as error:
            encoded(case)
        assert type(error.value).__name__ == case["error"]
        return
    data, residual = encoded(case)
    assert sha256_bytes(data) == case["sha256"]
    if "data" in case:
        assert base64.b64decode(case["data"]) == data
        for name, value in unpacked(case["lost"]).items():
            assert (residual[name] == value).all()
    assert asdict(decode_update(data).header) == case["header"]


def test_norms() -> None:
    for sizes, norm in FOUND["norms"]:
        assert norm_of(reciprocals(*sizes)) == norm


def test_weights_and_signed_requests() -> None:
    assert [bounded_weight(1, most) for most, _ in FOUND["weights"]] == [
        weight for _, weight in FOUND["weights"]
    ]
    for asked in FOUND["requests"]:
        said = asked["method"], asked["authority"], asked["path"]
        headers = signed_headers(
            bytes.fromhex(asked["key"]),
            *said,
            base64.b64decode(asked["body"]),
            created=asked["created"],
            nonce=bytes.fromhex(asked["nonce"]),
            figures=asked["figures"],
        )
        assert headers == asked["headers"]
        read_signature(headers, *said).check()


@pytest.mark.parametrize("case", FOUND["offers"], ids=lambda case: case["name"])
def test_offers(case: Any) -> None:
    data = base64.b64decode(case["data"])
    if "error" in case:
        with pytest.raises(getattr(errors, case["error"])) as error:
            read_offer_message(data)
        assert getattr(error.value, "round", None) == case["round"]
        return
    offer, wait = read_offer_message(data)
    assert wait == case["retry_after"]
    if offer is None:
        assert case["offer"] is None
        return
    local = json.loads(json.dumps(asdict(offer.config)))
    assert local == case["offer"]["local"]
    assert offer.release_sha256 == case["offer"]["release"]
    assert offer.announcement == base64.b64decode(case["offer"]["announcement"])
    if case["offer"]["settings"] is not None:
        pytest.importorskip("cryptography")  # private rounds need it
        from pocketquery.client.private.binding import settings_digest

        assert case["offer"]["settings"] == settings_digest(offer.config)


def test_limits() -> None:
    assert [refusal(case) for case in FOUND["limits"]] == [
        case["refusal"] for case in FOUND["limits"]
    ]


def test_memories(tmp_path: Path) -> None:
    path = tmp_path / "rounds.safetensors"
    for case in FOUND["memories"]:
        path.write_bytes(base64.b64decode(case["file"]))
        if "error" in case:
            RoundMemory(path)
            assert not path.exists()  # damaged: begun anew
            continue
        memory = RoundMemory(path)
        memory.attach(case["epoch"])
        assert memory.nonce(case["round_key"]) == case["nonce"]
        assert str(memory.seed(case["round_key"])) == case["seed"]
        for part, key in (("before", case["round_key"]), ("after", "the next")):
            kept = memory.recall(key).residual
            wanted = unpacked(case[part])
            assert kept.keys() == wanted.keys()
            assert all(np.array_equal(kept[name], wanted[name]) for name in wanted)
