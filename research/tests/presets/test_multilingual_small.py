"""What the students of the multilingual teacher are taught."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from pocketquery_research.presets.multilingual_small import in_turns, joined
from tests.tiny_models import xlmr_teacher


def test_languages_take_turns() -> None:
    assert list(in_turns([["a", "b", "c"], ["d"], ["e", "f"]])) == ["a", "d", "e", "b", "f", "c"]


def test_long_blank_and_repeated_texts_are_left_out(tmp_path: Path) -> None:
    shards = [
        ["held", "out"],
        ["a stone bridge", "  "],
        ["a stone bridge", "river " * 200, "the old harbour"],
    ]
    rows = np.random.default_rng(0).normal(size=(7, 8)).astype(np.float16)
    rows[4] = rows[2]
    for number, texts in enumerate(shards):
        listed = json.dumps([["en", text] for text in texts])
        (tmp_path / f"shard-{number:05}.json").write_text(listed, encoding="utf-8")
        np.save(tmp_path / f"shard-{number:05}.npy", rows[2 * number : 2 * number + len(texts)])
    tokenizer = xlmr_teacher(tmp_path / "teacher").tokenizer
    taught = joined(tokenizer, tmp_path, tmp_path / "vectors.npz", {})
    assert taught.texts == taught.documents == ["a stone bridge", "the old harbour"]
    expected = rows[[2, 6]].astype(np.float32)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(taught.encode(taught.texts), expected, rtol=1e-5)
    passage = {"a page about harbours": rows[0].astype(np.float32)}
    ranking = joined(tokenizer, tmp_path, tmp_path / "ranking.npz", passage)
    assert (ranking.texts, ranking.documents) == (taught.texts, ["a page about harbours"])
