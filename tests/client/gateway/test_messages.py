"""Offers as JSON: what a gateway writes is read, and anything else is told from it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketquery.client.device import Offer
from pocketquery.client.gateway.messages import (
    figures_text,
    offer_message,
    read_figures,
    read_offer_message,
)
from pocketquery.client.local_config import LocalConfig
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


def written() -> dict[str, object]:
    return {"offer": offer_message(OFFER, "4"), "retry_after": 0}


def test_an_offer_is_read_back() -> None:
    offered, wait = read_offer_message(json.dumps(written()).encode())
    assert offered is not None
    assert (offered.version, offered.size, wait) == ("4", 9, 0)
    assert offered.with_release(b"a release") == OFFER
    assert offered.with_release(b"a release").digest == OFFER.digest
    with pytest.raises(CorruptArtifactError, match="fetch it again"):
        offered.with_release(b"another")


def test_no_offer_says_when_to_come_back() -> None:
    assert read_offer_message(b'{"offer": null, "retry_after": 60}') == (None, 60)


@settings(max_examples=300, deadline=None)
@given(name=st.sampled_from(sorted(written()["offer"])), value=JSON)  # type: ignore[call-overload]
def test_no_field_raises_anything_else(name: str, value: object) -> None:
    message = written()
    message["offer"] = {**message["offer"], name: value}  # type: ignore[dict-item]
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


@given(st.none() | st.text(max_size=250) | JSON.map(json.dumps))
def test_figures_are_numbers_or_nothing(text: str | None) -> None:
    found = read_figures(text)
    assert set(found) <= {"loss", "drift", "effective_rank"}
    assert all(abs(value) < 1e6 for value in found.values())


def test_figures_are_read_back() -> None:
    assert read_figures(figures_text({"loss": 0.5, "drift": 0.25})) == {"loss": 0.5, "drift": 0.25}
