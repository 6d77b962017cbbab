"""What a text alone would change, and how the states of words lie to a change of ``down``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from private_rounds.changes import LOCAL, Bank, Fleet, User

from pocketquery.client.local_config import LocalConfig
from pocketquery.client.store.store import Example
from pocketquery.client.training.batches import Batches
from pocketquery.client.training.hybrid_teacher import HybridBatches
from pocketquery.sdk.arrays import Floats
from pocketquery.sdk.bundle.manifest import ENCODER_FILE

__all__ = ["Dictionary", "Directions", "RowSpace", "Words", "unit_rows", "words_of"]

Doubles = NDArray[np.float64]

WORDS = 5_000
_CHUNK = 250
_COPIES = 2  # of a text, mistyped differently
_TYPO_RATE = 0.2  # a view that is the text itself has no gradient
_ERRORS = 3  # onnxruntime warns that the adapter is an input, as it is meant to be


def words_of(text: str) -> list[str]:
    """The words of a query, in lower case."""
    return re.findall(r"[a-z0-9']+", text.lower())


class Directions:
    """Where a text alone would move the adapter, half-way along the rounds' average change.

    At the release itself ``up`` is zero, and so are the gradients of ``down``.

    Args:
        fleet: whose training step is used.
        mean: the average change of the attacker's replicas.
        bank: where they are kept.
        config: of the rounds; the index's hybrid ranking teaches the texts where it says so.
        prefix: of the names they are kept by.
    """

    def __init__(
        self,
        fleet: Fleet,
        mean: Floats,
        bank: Bank,
        config: LocalConfig = LOCAL,
        prefix: str = "",
    ) -> None:
        self._fleet, self._bank, self._prefix = fleet, bank, prefix
        self._state = fleet.step.initial_state(fleet.moved(mean / 2))
        self._config = replace(config, typo_rate=_TYPO_RATE)

    def of(self, name: str, texts: Sequence[str]) -> Floats:
        """Float32 (texts, d), rows of length 1 or 0; kept as ``name``."""
        name = self._prefix + name
        if name in self._bank:
            return self._bank.get(name)
        fleet, rng = self._fleet, np.random.default_rng(7)
        batches = self._batches([Example(text) for text in texts])
        found = np.empty((len(texts), fleet.release.size), np.float32)
        for place in range(len(texts)):
            batch = batches.make(np.full(_COPIES, place), rng)
            state, _, _ = fleet.step.run(batch, self._state, self._config.hyperparameters)
            gradient = fleet.flat(state.first_moment)
            found[place] = -gradient / max(float(np.linalg.norm(gradient)), 1e-12)
        return self._bank.put(name, found)

    def _batches(self, examples: Sequence[Example]) -> Batches | HybridBatches:
        fleet, config = self._fleet, self._config
        batches = Batches(fleet.encoder, fleet.step.description, examples, fleet.index, config)
        if not config.hybrid_loss_weight:
            return batches
        return HybridBatches(batches, fleet.index, config)

    def of_words(self, words: Sequence[str]) -> Floats:
        """Of each word alone."""
        return np.concatenate(
            [
                self.of(f"words-{start}", words[start : start + _CHUNK])
                for start in range(0, len(words), _CHUNK)
            ]
        )


@dataclass(frozen=True)
class Words:
    """The candidate words and which users used them.

    Attributes:
        words: the most frequent first.
        used: (users, words), how often.
        total: (users,), how many words each user typed, candidates or not.
    """

    words: Sequence[str]
    used: NDArray[np.int64]
    total: NDArray[np.int64]

    @classmethod
    def of(cls, users: Sequence[User], queries: int | None = None) -> Words:
        """Of the first ``queries`` queries of each user; the candidates are of all."""
        every = Counter(w for user in users for query in user.queries for w in words_of(query))
        words = [word for word, _ in every.most_common(WORDS)]
        place = {word: number for number, word in enumerate(words)}
        used = np.zeros((len(users), len(words)), np.int64)
        total = np.zeros(len(users), np.int64)
        for row, user in enumerate(users):
            for word in (w for query in user.queries[:queries] for w in words_of(query)):
                total[row] += 1
                if word in place:
                    used[row, place[word]] += 1
        return cls(words, used, total)


class Dictionary:
    """What each word alone would change, of all values or of ``up``'s, and how alike words are.

    Args:
        fleet: whose values they are.
        directions: of :meth:`Directions.of_words`.
    """

    def __init__(self, fleet: Fleet, directions: Floats) -> None:
        self._directions = directions
        self._seen = {True: fleet.is_up, False: np.ones(fleet.release.size, bool)}

    @cache  # noqa: B019 - one dictionary lives as long as the benchmark
    def rows(self, only_up: bool) -> Floats:
        """Float32 (words, values), rows of length 1."""
        return unit_rows(self._directions[:, self._seen[only_up]])

    @cache  # noqa: B019
    def gram(self, only_up: bool) -> Floats:
        """Float32 (words, words), the rows' cosines."""
        rows = self.rows(only_up)
        return np.asarray(rows @ rows.T)


class RowSpace:
    """How much of a word's state in the first layer lies in the rows of a change of ``down``."""

    def __init__(self, fleet: Fleet, words: Sequence[str]) -> None:
        self._fleet, self._words = fleet, words

    @cached_property
    def states(self) -> Floats:
        """Float32 (words, dimension), rows of length 1, centred; the mean over a word's tokens and
        over the first ten places of a query."""
        model = onnx.load_from_string(self._fleet.bundle.read(ENCODER_FILE))
        down = "adapter.layers.0.query.down"
        name = next(node.input[0] for node in model.graph.node if down in node.input)
        model.graph.output.append(onnx.helper.make_empty_tensor_value_info(name))
        options = onnxruntime.SessionOptions()
        options.log_severity_level = _ERRORS
        session = onnxruntime.InferenceSession(model.SerializeToString(), options)
        rows = []
        for word in self._words:
            tokens = self._fleet.encoder.tokenize(word)
            inner = tokens[1:-1] or tokens[:1]
            ids = np.array([[tokens[0], *(inner * 10)[:10], tokens[-1]]], np.int64)
            feed = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
            rows.append(session.run([name], feed)[0][0, 1:-1].mean(axis=0))
        found = np.array(rows, np.float32)
        found -= found.mean(axis=0)
        return unit_rows(found)

    def scores(self, change: Floats) -> Doubles:
        """(words,): the share of each word's state, from 0 to 1."""
        tensors = self._fleet.tensors(change)
        rows = np.concatenate(
            [tensors[f"adapter.layers.0.{part}.down"] for part in ("query", "value")]
        ).astype(np.float64)
        rows -= rows @ np.full((rows.shape[1], rows.shape[1]), 1 / rows.shape[1])
        _, strength, basis = np.linalg.svd(rows, full_matrices=False)
        kept = basis[strength > 1e-6 * max(strength[0], 1e-30)]
        if strength[0] < 1e-12:
            return np.zeros(len(self._words))
        return np.asarray(np.square(self.states @ kept.T).sum(axis=1), np.float64)


def unit_rows(rows: Floats) -> Floats:
    """The rows at length 1; those of length 0 as they are."""
    lengths = np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    return np.asarray(rows / lengths, np.float32)
