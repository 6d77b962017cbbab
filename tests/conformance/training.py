"""Write conformance/training: a tiny bundle with a training step, and what Python trains with it.

``steps.json.gz`` holds 20 steps as they were fed and how they ended; a whole local training,
drawn from Python's ``random`` alone so that another implementation can draw the same; another one
that the hybrid ranking of the index beside it teaches; figures of the monitors; and views of many
texts, each with the state of the generator they were drawn from.
"""

from __future__ import annotations

import base64
import gzip
import json
import random
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pocketquery import sdk
from pocketquery.client.store.stored_examples import Example, plain
from pocketquery.client.training.batches import Batches
from pocketquery.client.training.hybrid_teacher import HybridBatches
from pocketquery.client.training.monitors import measure
from pocketquery.client.training.prototypes import MatrixVectors
from pocketquery.client.training.step import Hyperparameters, LocalStep, StepBatch
from pocketquery.client.training.training import (
    BatchSource,
    LocalConfig,
    LocalResult,
    train_steps,
)
from pocketquery.client.views.augmenter_choice import choose
from pocketquery.client.views.typing_noise import mistype
from pocketquery.sdk.bundle.adapter import pack_adapter
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.bundle.manifest import ADAPTER_FILE
from pocketquery.sdk.bundle.safetensors import parse
from pocketquery.sdk.index.index import create_index
from tests.export.training_bundle import tiny_training_bundle
from tests.tiny_models import sentences

TARGET = Path(__file__).parents[2] / "conformance" / "training"
STEPS, BATCH, DOCUMENTS, QUERIES = 20, 6, 60, 24
SEED = 7
WEIGHTS: dict[str, Any] = {"opened_loss_weight": 1.0, "learning_rate": 3e-3}
TEXTS = [
    "how do plants make sugar",
    "Who wrote NINETEEN eighty-four?",
    "Zürich, 1920: café naïve Straße!",
    "İstanbul ΑΣ ΟΔΟΣ ﬁn ǅ ß",
    "東京の天気 คุณพูดภาษาไทยได้ไหม",
    "안녕하세요 한국어 흙 값이 얼마예요",
    "क्या हाल है हिन्दी किताब",
    "Москва ёлка це їжа Ἀθῆναι",
    "שלום עולם مرحبا بالعالم سلام",
    "👩‍👩‍👧‍👦 e\u0301cole \u0301 a\u0308b\u0323",
    "x",
    "   ",
    "",
    "42 17:30 don't e-mail co2",
]


class Draws:
    """The draws of a training from Python's own generator: numpy's are harder to do again."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def permutation(self, count: int) -> NDArray[np.intp]:
        """The numbers below ``count``, shuffled."""
        order = list(range(count))
        self._random.shuffle(order)
        return np.array(order, np.intp)

    def integers(self, most: int) -> int:
        """A number below ``most``, a power of two."""
        return self._random.getrandbits(most.bit_length() - 1)

    def random(self) -> float:
        """A number from 0 to below 1."""
        return self._random.random()

    def choice(self, size: int, count: int, replace: bool) -> NDArray[np.intp]:
        """The first ``count`` of the numbers below ``size``, shuffled from the front."""
        assert not replace
        order = list(range(size))
        for place in range(count):
            other = place + self._random.randrange(size - place)
            order[place], order[other] = order[other], order[place]
        return np.array(order[:count], np.intp)


def main() -> None:
    """Write everything anew."""
    shutil.rmtree(TARGET, ignore_errors=True)
    TARGET.mkdir(parents=True)
    path = tiny_training_bundle(TARGET / "bundle")
    bundle = Bundle.open(path)
    encoder, step = sdk.load(path), LocalStep.open(bundle)
    adapter = parse(bundle.read(ADAPTER_FILE))
    texts = sentences(DOCUMENTS + QUERIES)
    documents = encoder.encode(texts[:DOCUMENTS])
    source = MatrixVectors(documents, [f"d{row}" for row in range(DOCUMENTS)])
    examples = [_example(text, row) for row, text in enumerate(texts[DOCUMENTS:])]
    with create_index(
        TARGET / "index", space_id=encoder.space_id, dimension=encoder.dimension
    ) as builder:
        named = [sdk.Document(f"d{row}", text) for row, text in enumerate(texts[:DOCUMENTS])]
        builder.add(named, documents)
    found = {
        "examples": [asdict(one) for one in examples],
        "documents": _packed(source.vectors(np.arange(DOCUMENTS))),
        "steps": steps(encoder, step, source, examples, adapter),
        "local": local(encoder, step, source, examples, adapter, TARGET / "adapter.safetensors"),
        "hybrid": hybrid(encoder, step, examples, adapter),
        "monitors": monitors(),
        "views": views(),
        "plain": {text: plain(text) for text in [*TEXTS, "  What IS_this?? ", "?!", "Maße ΣΑΣ"]},
    }
    text = json.dumps(found, ensure_ascii=True, separators=(",", ":"))
    (TARGET / "steps.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


def _example(text: str, row: int) -> Example:
    """Of four queries one has nothing shown, and one nothing opened."""
    if row % 4 == 0:
        return Example(text)
    shown = tuple(f"d{(row * 3 + place * 7) % DOCUMENTS}" for place in range(2 + row % 4))
    return Example(text, shown, shown[row % len(shown)] if row % 4 > 1 else None)


def steps(
    encoder: sdk.Encoder,
    step: LocalStep,
    source: MatrixVectors,
    examples: Sequence[Example],
    adapter: Mapping[str, NDArray[Any]],
) -> dict[str, Any]:
    """Twenty steps with everything that was fed to them."""
    config = LocalConfig(nearest_prototypes=8, random_prototypes=8, typo_rate=0.2, **WEIGHTS)
    batches = Batches(encoder, step.description, examples, source, config)
    draws: Any = np.random.default_rng(SEED)
    state, fed, losses = step.initial_state(adapter), [], []
    for _ in range(STEPS):
        batch = batches.make(draws.permutation(len(examples))[:BATCH], draws)
        state, loss, vectors = step.run(batch, state, config.hyperparameters)
        fed.append(_fed(batch, source))
        losses.append([*asdict(loss).values()])
    return {
        "hyperparameters": {f.name: getattr(config, f.name) for f in fields(Hyperparameters)},
        "batches": fed,
        "losses": losses,
        "vectors": _packed(vectors),
        "online": {name: _packed(value) for name, value in state.online.items()},
        "target": {name: _packed(value) for name, value in state.target.items()},
        "second_moment": {name: _packed(value) for name, value in state.second_moment.items()},
    }


def _fed(batch: StepBatch, source: MatrixVectors) -> dict[str, Any]:
    """``batch`` with documents as rows, which takes a hundredth of the room."""
    known = {row.tobytes(): place for place, row in enumerate(source.vectors(np.arange(DOCUMENTS)))}

    def rows(vectors: NDArray[np.float32]) -> list[list[int]]:
        return [[known.get(one.tobytes(), -1) for one in line] for line in vectors]

    def ids(values: NDArray[np.int64], mask: NDArray[np.int64]) -> list[list[int]]:
        return [line[: kept.sum()].tolist() for line, kept in zip(values, mask, strict=True)]

    assert batch.prototypes is not None
    return {
        "online_ids": ids(batch.online_ids, batch.online_mask),
        "target_ids": ids(batch.target_ids, batch.target_mask),
        "anchor": _packed(batch.anchor),
        "prototypes": rows(batch.prototypes),
        "shown": rows(batch.shown),
        "opened_weight": batch.opened_weight.tolist(),
    }


def local(
    encoder: sdk.Encoder,
    step: LocalStep,
    source: MatrixVectors,
    examples: Sequence[Example],
    adapter: Mapping[str, NDArray[Any]],
    release: Path,
) -> dict[str, Any]:
    """A local training as ``train_locally`` does it, drawn from :class:`Draws`; its release."""
    config = LocalConfig(
        steps=12,
        batch_size=8,
        nearest_prototypes=10,
        random_prototypes=10,
        typo_rate=0.2,
        **WEIGHTS,
    )
    draws: Any = Draws(SEED)
    chosen = [examples[row] for row in draws.permutation(len(examples))]
    batches = Batches(encoder, step.description, chosen, source, config)
    result, trained = _trained(step, batches, len(chosen), adapter, config, draws)
    assert result.health is not None
    manifest = encoder.manifest
    release.write_bytes(
        pack_adapter(trained, manifest=manifest, version="1-local", parent_version="1")
    )
    return _told(config, result, trained) | {"health": asdict(result.health)}


def hybrid(
    encoder: sdk.Encoder,
    step: LocalStep,
    examples: Sequence[Example],
    adapter: Mapping[str, NDArray[Any]],
) -> dict[str, Any]:
    """A local training that is taught by the hybrid ranking of the index in :data:`TARGET`."""
    config = LocalConfig(
        steps=8,
        batch_size=8,
        nearest_prototypes=10,
        random_prototypes=10,
        typo_rate=0.2,
        learning_rate=3e-3,
        anchor_weight=0.5,
        hybrid_loss_weight=1.0,
        hybrid_candidates=6,
        hybrid_sharpness=0.2,
        hybrid_mistyped=0.25,
    )
    draws: Any = Draws(SEED)
    chosen = [Example(examples[row].query) for row in draws.permutation(len(examples))]
    with sdk.open_index(TARGET / "index") as index:
        batches = HybridBatches(
            Batches(encoder, step.description, chosen, index, config), index, config
        )
        result, trained = _trained(step, batches, len(chosen), adapter, config, draws)
    return _told(config, result, trained)


def _trained(
    step: LocalStep,
    batches: BatchSource,
    count: int,
    adapter: Mapping[str, NDArray[Any]],
    config: LocalConfig,
    draws: Any,
) -> tuple[LocalResult, dict[str, NDArray[Any]]]:
    """What comes of training on ``batches`` from ``adapter``, and the adapter after it."""
    given = step.initial_state(adapter)
    result = train_steps(step, batches, count, given, config, draws)
    assert result.stopped is None
    return result, {name: given.online[name] + change for name, change in result.change.items()}


def _told(
    config: LocalConfig, result: LocalResult, trained: Mapping[str, NDArray[Any]]
) -> dict[str, Any]:
    return {
        "seed": SEED,
        "steps": config.steps,
        "losses": [[*asdict(loss).values()] for loss in result.losses],
        "adapter": {name: _packed(value) for name, value in trained.items()},
    }


def monitors() -> list[dict[str, Any]]:
    """Figures of vectors sound, collapsed, few and many."""
    draws = np.random.default_rng(SEED)
    found = []
    for count, dimension, spread in ((1, 8, 1.0), (5, 8, 1.0), (12, 8, 0.01), (9, 3, 1.0)):
        shipped = _unit(draws.normal(size=(count, dimension)))
        middle = _unit(draws.normal(size=(1, dimension)))
        moved = _unit(middle + spread * (shipped + 0.3 * draws.normal(size=(count, dimension))))
        health = asdict(measure(moved, shipped))
        found.append(
            {
                "columns": dimension,
                "vectors": _packed(moved),
                "shipped": _packed(shipped),
                "health": health,
            }
        )
    return found


def views() -> dict[str, Any]:
    """Draws of the generator, and what is typed with it."""
    seeds = [0, 1, 2**31, 2**32, 2**53 - 1, 2**62 + 12345]
    numbers = {}
    for seed in seeds:
        rng = random.Random(seed)
        order = list(range(9))
        rng.shuffle(order)
        numbers[str(seed)] = [
            [rng.random() for _ in range(4)],
            [rng.randrange(n) for n in (1, 2, 3, 10, 1000, 2**31)],
            order,
            str(rng.getrandbits(63)),
        ]
    typed = []
    for seed, rate in ((3, 0.08), (4, 0.3), (5, 1.0)):
        rng = random.Random(seed)
        texts = [mistype(text, rate, rng) for _ in range(8) for text in TEXTS]
        typed.append({"seed": seed, "rate": rate, "texts": texts})
    rewritten = {}
    for name in ("unfinished", "noise_case", "dropout_view"):
        rng, augmenter = random.Random(6), choose(name)
        rewritten[name] = [augmenter.augment(text, rng).text for _ in range(6) for text in TEXTS]
    return {"texts": TEXTS, "numbers": numbers, "typed": typed, "rewritten": rewritten}


def _unit(vectors: NDArray[np.float64]) -> NDArray[np.float32]:
    units: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return units.astype(np.float32)


def _packed(value: NDArray[Any]) -> dict[str, Any]:
    """Float32 values, base 64, little-endian."""
    data = np.ascontiguousarray(value, "<f4")
    return {"shape": list(data.shape), "data": base64.b64encode(data.tobytes()).decode()}


if __name__ == "__main__":
    main()
