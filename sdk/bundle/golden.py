"""``golden.json``: texts with the ids and the vectors the exporter got for them.

Replaying them tells whether this machine computes what the exporting one did. The tokenizer must
agree to the id, the encoder to the rounding of its processor: int8 kernels with and without VNNI
saturate and round a little differently.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pocketquery.sdk.arrays import NDArray
from pocketquery.sdk.bundle.manifest import GOLDEN_FILE, MOST_DIMENSIONS, MOST_IDS
from pocketquery.sdk.encoder import Encoder
from pocketquery.sdk.errors import CorruptArtifactError
from pocketquery.sdk.fields import Fields

__all__ = ["LEAST_COSINE", "GoldenText", "GoldenAgreement", "parse_golden", "golden_json", "replay"]

LEAST_COSINE = 0.999
_DECIMALS = 6
_MOST_TEXTS = 10_000
_MOST_CHARACTERS = 1 << 20  # of one text
_LARGEST = 1.001  # of a unit vector's numbers, rounded


@dataclass(frozen=True)
class GoldenText:
    """One text with its ids and its vector (L2-normalised, rounded to 6 decimals)."""

    text: str
    ids: tuple[int, ...]
    vector: tuple[float, ...]


@dataclass(frozen=True)
class GoldenAgreement:
    """How near this machine's vectors are to the golden ones, over all texts."""

    texts: int
    least_cosine: float
    largest_difference: float


def golden_json(texts: Sequence[GoldenText]) -> bytes:
    """The bytes of ``golden.json``."""
    content = {
        "texts": [
            {
                "text": golden.text,
                "ids": list(golden.ids),
                "vector": [round(value, _DECIMALS) for value in golden.vector],
            }
            for golden in texts
        ]
    }
    return (json.dumps(content, ensure_ascii=False) + "\n").encode("utf-8")


def parse_golden(data: bytes) -> list[GoldenText]:
    """The texts in the bytes of ``golden.json``.

    Raises:
        CorruptArtifactError: not as described, or without a text; names the field.
    """
    items = Fields.of_json(data, GOLDEN_FILE).sequence("texts", _MOST_TEXTS)
    if not items:
        raise CorruptArtifactError(f"{GOLDEN_FILE}: field 'texts': found none, expected some")
    return [_golden(item, f"texts[{index}].") for index, item in enumerate(items)]


def _golden(item: object, path: str) -> GoldenText:
    if not isinstance(item, dict) or not isinstance(item.get("text"), str):
        raise CorruptArtifactError(
            f"{GOLDEN_FILE}: field '{path}text': missing or no text, expected one"
        )
    fields = Fields(item, GOLDEN_FILE, path)
    text = fields.text("text", _MOST_CHARACTERS) if item["text"] else ""
    ids, vector = fields.sequence("ids", MOST_IDS), fields.sequence("vector", MOST_DIMENSIONS)
    if not all(type(value) is int and value >= 0 for value in ids):
        raise CorruptArtifactError(f"{GOLDEN_FILE}: field '{path}ids': expected token ids only")
    if not all(type(value) in (int, float) and -_LARGEST <= value <= _LARGEST for value in vector):
        raise CorruptArtifactError(
            f"{GOLDEN_FILE}: field '{path}vector': expected numbers of a unit vector only"
        )
    return GoldenText(text, tuple(ids), tuple(map(float, vector)))


def replay(encoder: Encoder, texts: Sequence[GoldenText]) -> GoldenAgreement:
    """Encode each text again and compare; prompts take no part.

    Raises:
        CorruptArtifactError: other ids, a vector of another length, or a cosine below 0.999.
    """
    least, largest = 1.0, 0.0
    for golden in texts:
        _same_ids(golden, encoder.tokenize(golden.text))
        vector = encoder.encode(golden.text, prompt="")
        expected = np.array(golden.vector, dtype=np.float32)
        if expected.shape != vector.shape:
            raise CorruptArtifactError(
                f"{GOLDEN_FILE}: the vector of {_short(golden.text)} has {expected.size} numbers, "
                f"the encoder's space has {vector.size} dimensions"
            )
        cosine = _cosine(vector, expected)
        if not cosine >= LEAST_COSINE:  # so that NaN fails too
            raise CorruptArtifactError(
                f"{GOLDEN_FILE}: the vector of {_short(golden.text)} has cosine {cosine:.4f} with "
                f"the golden one, expected at least {LEAST_COSINE}; this machine computes "
                "something else than the exporting one did, or the bundle was put together wrongly"
            )
        least = min(least, cosine)
        largest = max(largest, float(np.abs(vector - expected).max()))
    return GoldenAgreement(len(texts), least, largest)


def _same_ids(golden: GoldenText, ids: Sequence[int]) -> None:
    if tuple(ids) != golden.ids:
        raise CorruptArtifactError(
            f"{GOLDEN_FILE}: {_short(golden.text)} gives the ids {_some(ids)}, expected "
            f"{_some(golden.ids)}; the tokenizer is not the one the bundle was made with"
        )


def _cosine(first: NDArray[np.float32], second: NDArray[np.float32]) -> float:
    a, b = first.astype(np.float64), second.astype(np.float64)
    norms = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / norms if norms else math.nan


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")


def _some(ids: Sequence[int]) -> str:
    return str(list(ids[:12]))[:-1] + (", ...]" if len(ids) > 12 else "]")
