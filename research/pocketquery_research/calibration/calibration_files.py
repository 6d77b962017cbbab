"""A calibration beside its encoder: ``calibration.json`` and ``calibration.safetensors``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from pocketquery.sdk.errors import (
    ArtifactNotFoundError,
    CorruptArtifactError,
    UnsupportedVersionError,
)
from pocketquery.sdk.files import sha256_bytes, sha256_file, write_atomic
from pocketquery_research.calibration.calibration import Calibration, LanguageCalibration
from pocketquery_research.calibration.statistics import Statistics

__all__ = ["CALIBRATION", "calibration_sha256", "read_calibration", "write_calibration"]

CALIBRATION = "calibration.json"
"""Names the folder's other file with its hash."""

_VERSION = 1
_TENSORS = "calibration.safetensors"


def write_calibration(folder: Path, calibration: Calibration) -> None:
    """Write both files; the JSON, which names the other's hash, last."""
    payload = save(_tensors(calibration))
    write_atomic(folder / _TENSORS, payload)
    rows = {
        language: {
            "sentences": fitted.sentences,
            "rotated": fitted.rotation is not None,
            "pairs": fitted.pairs,
            "cosine": fitted.cosine,
        }
        for language, fitted in calibration.languages.items()
    }
    described = {
        "format_version": _VERSION,
        "pivot": calibration.pivot,
        "dimension": calibration.dimension,
        "tensors_sha256": sha256_bytes(payload),
        "languages": rows,
    }
    text = json.dumps(described, indent=2, ensure_ascii=False, sort_keys=True)
    write_atomic(folder / CALIBRATION, text + "\n")


def read_calibration(folder: Path) -> Calibration:
    """The calibration in ``folder``.

    Raises:
        ArtifactNotFoundError: there is none.
        CorruptArtifactError: a file was changed, cut short, or belongs to another calibration.
        UnsupportedVersionError: written by a newer version.
    """
    for name in (CALIBRATION, _TENSORS):
        if not (folder / name).is_file():
            raise ArtifactNotFoundError(
                f"{folder} has no {name}; calibrate the model, or copy the folder again"
            )
    try:
        described = json.loads((folder / CALIBRATION).read_text(encoding="utf-8"))
        if described["format_version"] > _VERSION:
            raise UnsupportedVersionError(
                f"{folder / CALIBRATION} has format version {described['format_version']}; this "
                f"release reads up to {_VERSION}. Update pocketquery"
            )
        if sha256_file(folder / _TENSORS) != described["tensors_sha256"]:
            raise CorruptArtifactError(
                f"{folder / _TENSORS} is not what {CALIBRATION} names; copy both"
            )
        tensors = load_file(folder / _TENSORS)
        languages = {
            language: _language(row, language, tensors)
            for language, row in described["languages"].items()
        }
        return Calibration(languages=languages, pivot=described["pivot"])
    except (ValueError, KeyError, TypeError, SafetensorError) as error:
        raise CorruptArtifactError(
            f"{folder / CALIBRATION} is not a calibration ({type(error).__name__}: {error}); copy "
            "the folder again or calibrate the model anew"
        ) from error


def calibration_sha256(calibration: Calibration) -> str:
    """SHA-256 of everything that moves a vector."""
    return sha256_bytes(calibration.pivot.encode() + save(_tensors(calibration)))


def _tensors(calibration: Calibration) -> dict[str, NDArray[np.float64]]:
    tensors: dict[str, NDArray[np.float64]] = {}
    for language, fitted in sorted(calibration.languages.items()):
        tensors[f"mean/{language}"] = np.ascontiguousarray(fitted.statistics.mean)
        tensors[f"spread/{language}"] = np.ascontiguousarray(fitted.statistics.spread)
        if fitted.rotation is not None:
            tensors[f"rotation/{language}"] = np.ascontiguousarray(fitted.rotation)
    return tensors


def _language(
    row: dict[str, Any], language: str, tensors: dict[str, NDArray[np.float64]]
) -> LanguageCalibration:
    return LanguageCalibration(
        Statistics(tensors[f"mean/{language}"], tensors[f"spread/{language}"]),
        tensors[f"rotation/{language}"] if row["rotated"] else None,
        int(row["sentences"]),
        int(row["pairs"]),
        float(row["cosine"]),
    )
