"""An encoder and its calibration, saved as one folder: text and its language in, vectors out."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.folders import replace_folder
from pocketquery.server.modeling import SentenceEncoder
from pocketquery_research.calibration.calibration import (
    Calibration,
    CalibrationConfig,
    Stage,
    fit,
)
from pocketquery_research.calibration.calibration_files import (
    CALIBRATION,
    calibration_sha256,
    read_calibration,
    write_calibration,
)

__all__ = ["CalibratedEncoder", "calibrate", "without"]

_ENCODER = "encoder"


class CalibratedEncoder:
    """A sentence encoder whose vectors are calibrated by language.

    Args:
        encoder: the model.
        calibration: fitted on its vectors.

    Raises:
        InvalidInputError: the calibration is of vectors of another width.
    """

    def __init__(self, encoder: SentenceEncoder, calibration: Calibration) -> None:
        if calibration.dimension != encoder.dimension:
            raise InvalidInputError(
                f"the calibration is of vectors of width {calibration.dimension}, the encoder's "
                f"have {encoder.dimension}; calibrate this encoder"
            )
        self.encoder = encoder
        self.calibration = calibration

    @classmethod
    def load(cls, folder: str | Path, *, device: str = "cpu") -> CalibratedEncoder:
        """The encoder and calibration in ``folder``.

        Raises:
            ArtifactNotFoundError: the folder holds no calibration.
            UnknownModelError: it holds no encoder.
            CorruptArtifactError: the calibration was changed or cut short.
        """
        calibration = read_calibration(Path(folder))
        return cls(SentenceEncoder.load(Path(folder) / _ENCODER, device=device), calibration)

    def save(self, folder: str | Path) -> None:
        """Write the encoder in a folder of its own and beside it the calibration, in one step.

        What does not know the calibration finds no encoder in ``folder``, and refuses it.

        Raises:
            InvalidInputError: ``folder`` holds something that is not a calibrated encoder.
        """
        place = Path(folder)
        if place.exists() and not (place / CALIBRATION).is_file():
            raise InvalidInputError(
                f"{place} exists and is no calibrated encoder; name another folder, or remove it"
            )
        with replace_folder(place) as inside:
            self.encoder.save(inside / _ENCODER)
            write_calibration(inside, self.calibration)

    @property
    def dimension(self) -> int:
        """Width of the vectors."""
        return self.encoder.dimension

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages that can be encoded, sorted."""
        return tuple(sorted(self.calibration.languages))

    @property
    def space_id(self) -> str:
        """A space of its own: calibrated vectors do not compare with the encoder's raw ones."""
        parts = f"{self.encoder.space_id} {calibration_sha256(self.calibration)}"
        return "space-" + hashlib.sha256(parts.encode()).hexdigest()[:32]

    def encode(
        self,
        texts: Sequence[str],
        lang: str | Sequence[str],
        *,
        stage: Stage = "rotate",
        **options: Any,
    ) -> NDArray[np.float32]:
        """Calibrated vectors, float32 (len(texts), dimension), rows of unit length.

        Args:
            texts: n of them.
            lang: the language of all, or of each.
            stage: the last stage to apply, to compare.
            options: as :meth:`SentenceEncoder.encode` takes them.

        Raises:
            InvalidInputError: a language that was not calibrated, or not one for each text.
        """
        languages = [lang] * len(texts) if isinstance(lang, str) else list(lang)
        if len(languages) != len(texts):
            raise InvalidInputError(
                f"there are {len(texts)} texts and {len(languages)} languages; expected one "
                "language a text, or one for all"
            )
        vectors = self.encoder.encode(texts, **options)
        for language in sorted(set(languages)):
            rows = [row for row, own in enumerate(languages) if own == language]
            vectors[rows] = self.calibration.apply(vectors[rows], language, stage)
        return vectors


def calibrate(
    encoder: SentenceEncoder,
    sentences: Mapping[str, Sequence[str]],
    config: CalibrationConfig | None = None,
    *,
    held_out: Collection[str] = (),
    batch_size: int = 64,
) -> CalibratedEncoder:
    """Fit a calibration to an encoder.

    Args:
        encoder: as it will be used: its own layer and pooling.
        sentences: of every language, from texts it was not trained on; nothing is parallel.
        config: how.
        held_out: sentences of the evaluation; they are never encoded here, in any language.
        batch_size: of the encoding.

    Raises:
        InvalidInputError: a language with too few sentences, an unknown pivot.
    """
    vectors = {
        language: encoder.encode(without(texts, held_out), batch_size=batch_size)
        for language, texts in sentences.items()
    }
    return CalibratedEncoder(encoder, fit(vectors, config or CalibrationConfig()))


def without(texts: Sequence[str], held_out: Collection[str]) -> list[str]:
    """The distinct texts that are not held out; case and spaces make no difference."""
    seen = {_plain(text) for text in held_out}
    kept = []
    for text in texts:
        plain = _plain(text)
        if plain and plain not in seen:
            kept.append(text)
        seen.add(plain)
    return kept


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
