"""The encoders that are compared: each turns texts of a language into vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from pocketquery import sdk
from pocketquery.sdk.arrays import Floats
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.vector_cache import cached_vectors
from pocketquery_research.calibration import Calibration, CalibrationConfig, fit
from pocketquery_research.calibration.calibrated_encoder import without
from pocketquery_research.calibration.calibration import Stage

__all__ = ["SYSTEMS", "Encoders"]

_STAGES: Mapping[str, tuple[str, Stage]] = {
    "random": ("random", "raw"),
    "random_calibrated": ("random", "scale"),
    "mlm": ("mlm", "raw"),
    "auto_mlm": ("auto_mlm", "raw"),
    "auto_mlm_calibrated": ("auto_mlm", "scale"),
    "ccp": ("ccp", "raw"),
    "ccp_calibrated": ("ccp", "scale"),
    "ccp_rotated": ("ccp", "rotate"),
}

_FITTED = 2048  # sentences of each language

SYSTEMS = ("bm25", *_STAGES, "bundle")
"""In the order they are shown. ``_calibrated`` is shift and scale of every language, ``_rotated``
a rotation besides; ``bundle`` encodes the queries on the device, in int8, for ``ccp``'s documents.
"""


class Encoders:
    """Vectors by the name of a system, kept on disk.

    Args:
        models: ``random``, ``mlm``, ``auto_mlm`` and ``ccp``.
        bundle: the query encoder in the space of ``ccp``; None where there is none.
        sentences: by language some thousand sentences that no model was trained on and no test
            holds.
        tested: texts of the tests, which no calibration sees.
        cache: folder of the vectors.
    """

    def __init__(
        self,
        models: Mapping[str, SentenceEncoder],
        bundle: sdk.Encoder | None,
        sentences: Mapping[str, Sequence[str]],
        tested: Sequence[str],
        cache: Path,
    ) -> None:
        self._models, self._bundle, self._cache = models, bundle, cache
        kept = {one: without(texts, tested)[:_FITTED] for one, texts in sentences.items()}
        self.fitted_on = {language: len(texts) for language, texts in kept.items()}
        self._calibrations: dict[str, Calibration] = {
            name: fit(
                {one: self._raw(name, texts) for one, texts in kept.items()}, CalibrationConfig()
            )
            for name in ("random", "auto_mlm", "ccp")
        }

    def vectors(
        self, system: str, texts: Sequence[str], language: str, *, queries: bool = False
    ) -> Floats:
        """float32 (texts, dim), rows of unit length.

        Args:
            system: of :data:`SYSTEMS`, but bm25.
            texts: of one language.
            language: theirs.
            queries: whether they are queries, which a bundle encodes itself.
        """
        if system == "bundle":
            if not queries:
                return self._raw("ccp", texts)
            assert self._bundle is not None
            return np.asarray(self._bundle.encode_query(list(texts)))
        name, stage = _STAGES[system]
        found = self._raw(name, texts)
        return found if stage == "raw" else self._calibrations[name].apply(found, language, stage)

    def _raw(self, name: str, texts: Sequence[str]) -> Floats:
        return cached_vectors(self._models[name], "document", list(texts), self._cache)
