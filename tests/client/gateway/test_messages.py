"""Offers as JSON: what a gateway writes is read, and anything else is told from it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketquery.client.gateway.messages import offer_message, read_offer_message
from pocketquery.client.local_config import LocalConfig
from pocketquery.client.offer import Offer
from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError

OFFER = Offer(
    round=3,
    release=b"a release",
    config=LocalConfig(steps=7, heavy_views=("typo", "noise_case")),
    clip_norm=1.25,
    compress=False,
    lineage=b"statements",
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


def written() -> dict[str, Any]:
    return offer_message(OFFER, 0)


def test_an_offer_is_read_back() -> None:
    offered, wait = read_offer_message(json.dumps(written()).encode())
    assert offered is not None
    assert (offered.release, wait) == (b"", 0)
    assert offered.with_release(b"a release") == OFFER
    assert offered.with_release(b"a release").digest == OFFER.digest == offered.digest
    assert Offer.from_bytes(OFFER.to_bytes()) == offered
    with pytest.raises(CorruptArtifactError, match="fetch it again"):
        offered.with_release(b"another")


def test_an_offer_of_another_version_is_refused_in_one_line() -> None:
    data = json.dumps(OFFER.to_dict() | {"version": "0"}).encode()
    with pytest.raises(CorruptArtifactError, match=r"version '0'; expected .* Upgrade the older"):
        Offer.from_bytes(data)


def test_no_offer_says_when_to_come_back() -> None:
    assert read_offer_message(b'{"offer": null, "retry_after": 60}') == (None, 60)


@settings(max_examples=300, deadline=None)
@given(name=st.sampled_from(sorted(written()["offer"])), value=JSON)
def test_no_field_raises_anything_else(name: str, value: object) -> None:
    message = written()
    message["offer"] = {**message["offer"], name: value}
    try:
        read_offer_message(json.dumps(message).encode())
    except (CorruptArtifactError, InvalidInputError):
        return


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60) | JSON.map(lambda value: json.dumps(value).encode()))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    try:
        read_offer_message(data)
    except (CorruptArtifactError, InvalidInputError):
        return
