"""The multilingual teacher's int8 graph, in its place where twelve layers in float take hours.

Its vocabulary is whole and it has no adapter; cosine to the float teacher .999. Vectors are kept on
disk by a hash of who made them and of all texts.
"""

from __future__ import annotations

import hashlib
import lzma
import sys
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray

from pocketquery.export.onnx_graph import build_graph
from pocketquery.export.quantization.quantization import quantize
from pocketquery.export.quantization.smoothing import activation_ranges, smooth
from pocketquery.export.sessions import GraphSession
from pocketquery.export.settings import GraphOptions
from pocketquery.sdk.files import write_atomic
from pocketquery.server.modeling import SentenceEncoder

__all__ = ["Encode", "TeacherGraph", "Vectors", "kept", "sentences"]

Vectors = NDArray[np.float32]
Encode = Callable[[Sequence[str]], Vectors]

_CALIBRATION = 13  # sentences a language
_PART = 256  # texts between two writes: what a kill can cost


class TeacherGraph:
    """The graph, made once in ``folder`` and opened when it is needed. ::

        teacher = TeacherGraph(Path("runs/teacher"), Path("data"))
        vectors = teacher.encode(["query: or passage: is put in front"], "query")

    Args:
        folder: keeps the graph, and vectors.
        data: holds common_voice_sentences, by which it is calibrated.
    """

    def __init__(self, folder: Path, data: Path) -> None:
        self._folder, self._data = folder, data

    @cached_property
    def encoder(self) -> SentenceEncoder:
        """The float teacher."""
        return SentenceEncoder.load("multilingual")

    def encode(self, texts: Sequence[str], role: str) -> Vectors:
        """Unit vectors, float32 (n, 384), of texts in the role "query" or "document"."""
        prompt = self.encoder.prompts[role]
        rows = self.encoder.tokenizer(
            [prompt + text for text in texts], truncation=True, max_length=512
        )
        return self._session.encode(rows["input_ids"])

    def sides(self) -> tuple[Encode, Encode]:
        """What encodes queries, and what encodes documents."""
        return partial(self.encode, role="query"), partial(self.encode, role="document")

    @cached_property
    def _session(self) -> GraphSession:
        path = self._folder / "int8.onnx"
        if not path.is_file():
            teacher = self.encoder.with_device_ids()
            model = build_graph(teacher, GraphOptions(adapter_rank=0))
            prompts = [teacher.prompts["query"], teacher.prompts["document"]]
            texts = [text for lines in sentences(self._data) for text in lines[:_CALIBRATION]]
            rows = teacher.tokenizer([prompts[i % 2] + text for i, text in enumerate(texts)])
            graph = quantize(smooth(model, activation_ranges(model, rows["input_ids"])))
            self._folder.mkdir(parents=True, exist_ok=True)
            write_atomic(path, graph.SerializeToString())
        return GraphSession(onnx.load(path))


def sentences(data: Path) -> list[list[str]]:
    """Common Voice's, a list a language."""
    files = sorted((data / "common_voice_sentences").glob("*.txt.xz"))
    return [lzma.decompress(file.read_bytes()).decode("utf-8").splitlines() for file in files]


def kept(folder: Path, made_by: str, texts: Sequence[str], encode: Encode) -> Vectors:
    """Vectors of ``texts``, out of ``folder`` where they are there, some hundreds a file.

    Args:
        folder: of the vectors.
        made_by: the encoder and the role.
        texts: one at least.
        encode: makes those that are not there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    parts: list[Vectors] = []
    for start in range(0, len(texts), _PART):
        part = texts[start : start + _PART]
        digest = hashlib.sha256("\0".join([made_by, *part]).encode()).hexdigest()
        path = folder / f"{digest[:32]}.npy"
        if not path.is_file():
            temporary = path.with_suffix(".part.npy")
            np.save(temporary, encode(part))
            temporary.rename(path)
            print(f"{made_by} encoded {len(part)} texts", file=sys.stderr, flush=True)
        parts.append(np.load(path))
    return np.concatenate(parts)
