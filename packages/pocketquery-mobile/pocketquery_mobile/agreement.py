"""Check that the encoder that takes text agrees with its tokenizer and its encoder.

Equal ids are counted over the caller's queries, plain English questions and every character; where
the ids are equal, the vectors must be, and on the caller's corpus both must rank alike.
"""

from __future__ import annotations

import dataclasses
import gzip
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from pocketquery.export.parity import row_cosines
from pocketquery.export.quantization.ranking_gate import GateData, compare_rankings
from pocketquery.export.sessions import GraphSession
from pocketquery.export.settings import GateThresholds
from pocketquery.sdk.bundle.golden import LEAST_COSINE
from pocketquery.sdk.bundle.manifest import STRING_GRAPH_FILE
from pocketquery.sdk.errors import ArtifactError
from pocketquery.sdk.tokenizers.tokenizer import Tokenizer
from pocketquery_mobile.graph import StringGraph, extensions_version

__all__ = ["EqualIds", "StringGraphReport", "check_string_graph", "every_character"]

LEAST_EQUAL = 0.999
"""The least share of plain texts that must get the tokenizer's ids for the file to be written."""

_CHARACTERS = 6  # in one text of every_character: some 24 ids
_CODE_POINT_STRIDE = (
    16  # of ideographs, syllables and the planes beyond, one in so many is looked at
)


@dataclass(frozen=True)
class EqualIds:
    """Of how many texts the graph gives the ids of the device's tokenizer."""

    texts: int
    equal: int

    @property
    def share(self) -> float:
        """Equal ones among all; 1 of none."""
        return self.equal / self.texts if self.texts else 1.0


@dataclass(frozen=True)
class StringGraphReport:
    """What was measured of the graph before it was written.

    Attributes:
        kind: of the tokenizer, "wordpiece" or "sentencepiece".
        prompt: what the graph puts before a text unless it is given another.
        extensions: the version of onnxruntime-extensions it was measured with.
        queries: the caller's queries.
        english: plain English questions.
        characters: texts that hold every character (:func:`every_character`).
        golden: the golden texts; where the ids are equal, so is the vector.
        overlap: of the ten best documents with those of the encoder's own; None without a gate.
        bytes: the size of the file.
    """

    kind: str
    prompt: str
    extensions: str
    queries: EqualIds
    english: EqualIds
    characters: EqualIds
    golden: EqualIds
    overlap: float | None
    bytes: int

    def to_dict(self) -> dict[str, Any]:
        """What the manifest says: the fields, that the ids are not exact, and the shares."""
        fields = dataclasses.asdict(self) | {"file": STRING_GRAPH_FILE, "exact": False}
        for name in ("queries", "english", "characters", "golden"):
            fields[name]["share"] = getattr(self, name).share
        return fields


def check_string_graph(
    model: onnx.ModelProto,
    encoder: onnx.ModelProto,
    tokenizer: Tokenizer,
    *,
    kind: str,
    queries: Sequence[str],
    golden_texts: Sequence[str],
    gate: GateData | None = None,
    thresholds: GateThresholds | None = None,
) -> StringGraphReport:
    """Hold the graph to the tokenizer and the encoder that it joins.

    Args:
        model: what :func:`build_string_graph` gave.
        encoder: the encoder in it.
        tokenizer: the device's own.
        kind: of the tokenizer.
        queries: texts of the kind users type, without the prompt.
        golden_texts: those that ``verify`` replays.
        gate: queries and documents that both must rank alike; None leaves that out.
        thresholds: of the ranking.

    Raises:
        ArtifactError: too few plain texts get the tokenizer's ids, a text with equal ids gets
            another vector, or the documents are ranked otherwise.
        MissingExtraError: onnxruntime-extensions is not installed.
    """
    data = model.SerializeToString(deterministic=True)
    graph, session = StringGraph(data), GraphSession(encoder)
    prompt = graph.metadata.get("prompt", "")

    def compare(texts: Iterable[str], prompt: str = "") -> EqualIds:
        equal = [
            graph.ids(text, prompt=prompt) == tokenizer.encode(prompt + text) for text in texts
        ]
        return EqualIds(len(equal), sum(equal))

    def compare_plain(name: str, texts: Sequence[str], prompt: str = "") -> EqualIds:
        counts = compare(texts, prompt)
        if counts.share < LEAST_EQUAL:
            raise ArtifactError(
                f"the graph that takes text gives {counts.texts - counts.equal} of {counts.texts} "
                f"plain texts ({name}) other ids than the tokenizer, expected a share of "
                f"{LEAST_EQUAL} equal; nothing was written. Export without it, and report the "
                "tokenizer"
            )
        return counts

    _check_vectors(graph, session, tokenizer, golden_texts)
    return StringGraphReport(
        kind=kind,
        prompt=prompt,
        extensions=extensions_version(),
        queries=compare_plain("queries", queries, prompt),
        overlap=_overlap(graph, session, tokenizer, prompt, gate, thresholds),
        english=compare_plain("english", _english()),
        characters=compare(every_character(_CODE_POINT_STRIDE)),
        golden=compare(golden_texts),
        bytes=len(data),
    )


def every_character(step: int = 1) -> Iterator[str]:
    """Texts that hold each character once inside a word and once alone.

    Unicode's assigned characters as this Python knows them, without U+0000, surrogates and private
    use.

    Args:
        step: of ideographs, syllables and what lies beyond the first plane, where neighbours are
            alike, only each ``step``-th.
    """
    characters = [
        chr(point)
        for point in range(1, sys.maxunicode + 1)
        if (point % step == 0 or point < 0x3400 or 0xD7A4 <= point < 0x10000)
        and unicodedata.category(chr(point)) not in ("Cn", "Co", "Cs")
    ]
    for start in range(0, len(characters), _CHARACTERS):
        yield " ".join(f"a{c}n {c}" for c in characters[start : start + _CHARACTERS])


def _english() -> list[str]:
    """Plain questions in English: 937 of SQuAD's."""
    packed = (Path(__file__).parent / "data" / "questions.txt.gz").read_bytes()
    return gzip.decompress(packed).decode().splitlines()


def _overlap(
    graph: StringGraph,
    session: GraphSession,
    tokenizer: Tokenizer,
    prompt: str,
    gate: GateData | None,
    thresholds: GateThresholds | None,
) -> float | None:
    if gate is None:
        return None
    texts = [query.text for query in gate.queries]
    expected = session.encode(tokenizer.encode(prompt + text) for text in texts)
    vectors = np.stack([graph.encode(text) for text in texts])
    return compare_rankings(expected, vectors, gate, thresholds or GateThresholds()).overlap


def _check_vectors(
    graph: StringGraph, session: GraphSession, tokenizer: Tokenizer, texts: Sequence[str]
) -> None:
    same = [text for text in texts if graph.ids(text, prompt="") == tokenizer.encode(text)]
    if not same:
        return
    expected = session.encode(map(tokenizer.encode, same))
    least = row_cosines(np.stack([graph.encode(text, prompt="") for text in same]), expected).min()
    if not least >= LEAST_COSINE:  # so that NaN fails too
        raise ArtifactError(
            f"the graph that takes text gives a golden text with equal ids a vector of cosine "
            f"{least:.4f} with the encoder's, expected {LEAST_COSINE} or more; nothing was "
            "written. Report the versions of onnx and onnxruntime"
        )
