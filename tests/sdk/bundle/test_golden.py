from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from pocketquery import sdk
from pocketquery.sdk.bundle.golden import GoldenText, golden_json, parse_golden, replay
from pocketquery.sdk.errors import CorruptArtifactError
from tests.sdk.tiny_bundle import GOLDEN_TEXTS
from tests.sdk.tiny_bundle import golden_json as reference_json


def golden() -> list[GoldenText]:
    return parse_golden(reference_json())


def test_what_is_written_is_read() -> None:
    assert parse_golden(golden_json(golden())) == golden()
    assert [item.text for item in golden()] == list(GOLDEN_TEXTS)


def test_the_agreement_is_measured(tiny_bundle: Path) -> None:
    agreement = replay(sdk.load(tiny_bundle), golden())
    assert agreement.texts == len(GOLDEN_TEXTS)
    assert agreement.least_cosine > 0.999999
    assert agreement.largest_difference < 1e-5


def test_prompts_take_no_part(tmp_path: Path) -> None:
    from tests.sdk.tiny_bundle import write_tiny_bundle

    path = write_tiny_bundle(tmp_path / "b", default_prompt_name="query")
    assert replay(sdk.load(path), golden()).least_cosine > 0.999999


def test_other_ids_other_vectors_and_other_lengths_are_refused(tiny_bundle: Path) -> None:
    encoder = sdk.load(tiny_bundle)
    first = golden()[0]
    cases: list[tuple[dict[str, Any], str]] = [
        ({"ids": (2, 3)}, r"gives the ids \[2, .*expected \[2, 3\]"),
        ({"vector": first.vector[::-1]}, "has cosine"),
        ({"vector": (0.0,) * len(first.vector)}, "has cosine nan"),
        ({"vector": first.vector[:-1]}, "has 15 numbers, the encoder's space has 16"),
    ]
    for changes, message in cases:
        with pytest.raises(CorruptArtifactError, match=message):
            replay(encoder, [dataclasses.replace(first, **changes)])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "'texts': missing"),
        ({"texts": []}, "'texts': found none"),
        ({"texts": [1]}, r"'texts\[0\].text'"),
        ({"texts": [{"text": "a"}]}, r"'texts\[0\].ids': missing"),
        ({"texts": [{"text": "a", "ids": [1.5], "vector": []}]}, r"'texts\[0\].ids'"),
        ({"texts": [{"text": "a", "ids": [1], "vector": ["x"]}]}, r"'texts\[0\].vector'"),
        ({"texts": [{"text": "a", "ids": [1], "vector": [True]}]}, r"'texts\[0\].vector'"),
    ],
)
def test_a_broken_file_is_refused_by_field(content: object, message: str) -> None:
    with pytest.raises(CorruptArtifactError, match=message):
        parse_golden(json.dumps(content).encode())
