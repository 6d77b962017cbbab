"""Whether a start has learnt something: what it has to show before a claim is tried on it.

``loss``: its cross entropy on the masked subword tokens of held-out text is a stated share or less
of those tokens' entropy, each by itself (what knowing their frequencies alone comes to). ``probe``:
a line through its vectors tells CLINC150's intents better, from a few examples each, than one
through those of randomly initialised weights. ``retrieval``: after the same short fine-tuning it
finds SQuAD's passages better than randomly initialised weights do. "Better" is an interval, over
drawings or seeds and over texts, that lies above 0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from retrieval_test import dense_ranks, fine_tuned, first_triples, rank_scores, triples_of
from starts import Start, declared, start_texts
from texts.passage_tests import passage_test
from two_way import Estimate, estimated

from pocketquery.sdk.files import write_atomic
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.mlm_head import load_mlm_heads
from pocketquery.server.modeling.sentence_encoder import to_device
from pocketquery.server.objectives import build_objective
from pocketquery.server.pretraining import PretrainingConfig
from pocketquery_research.evaluation.classification import few_shot
from pocketquery_research.evaluation.labelled_texts import LabelledTexts, read_labelled_texts

__all__ = ["checked_leg", "intents", "judge", "masked_loss", "unigram_entropy", "why_not"]

_HELD_OUT = 1000  # texts that the loss is measured on
_BATCH = 32


def judge(start: Start, data: Path, device: str = "cpu") -> dict[str, Any]:
    """Measure the finished legs in order until one passes; what is measured is kept.

    Args:
        start: whose legs are measured.
        data: folder of the public sets.
        device: torch device to compute on.

    Returns:
        ``passed``, and of every leg that was looked at its figures.
    """
    looked_at: dict[str, Any] = {}
    for leg in range(1, start.finished() + 1):
        figures = looked_at[f"leg {leg}"] = _measured(start, leg, data, device)
        print(f"{start.name}, leg {leg}: {_shown(figures)}", flush=True)
        if _passes(start, figures):
            return {"start": start.name, "passed": True, "leg": leg, **looked_at}
    return {"start": start.name, "passed": False, **looked_at}


def checked_leg(start: Start) -> int:
    """The leg that the studies start from: the first that passes.

    Raises:
        SystemExit: none is known to; says what was found and which command comes next.
    """
    for leg in range(1, start.finished() + 1):
        figures = _kept(start, leg)
        if not all(part in figures for part in start.settings["gate"]):
            break
        if _passes(start, figures):
            return leg
    raise SystemExit(why_not(start))


def why_not(start: Start) -> str:
    """What was found of a start that has not passed, and which command comes next."""
    say = "python research/claims/start.py"
    last = ""
    for leg in range(1, start.finished() + 1):
        figures = _kept(start, leg)
        unmeasured = [part for part in start.settings["gate"] if part not in figures]
        if unmeasured:
            return (
                f"leg {leg} of the start {start.name} has not been held to its gate "
                f"({', '.join(unmeasured)}); expected it to pass before a claim is tried. Next: "
                f"{say} gate --start {start.name}"
            )
        last = f" Found for leg {leg}: {_shown(figures)}."
    next_leg = start.finished() + 1
    if next_leg > len(start.legs):
        return (
            f"the start {start.name} has not passed its gate after all of its legs.{last} Expected "
            f"{_wanted(start)}. Next: declare a longer leg under [starts.{start.name}] in arms.toml"
        )
    return (
        f"the start {start.name} has not passed its gate.{last} {start.steps_done(next_leg)} of "
        f"the {start.legs[next_leg - 1]['steps']} steps of leg {next_leg} are trained; expected "
        f"{_wanted(start)}. Next: {say} train --start {start.name} --legs {next_leg}, then {say} "
        f"gate --start {start.name}"
    )


def masked_loss(
    encoder: SentenceEncoder, head: Path | None, texts: list[str], max_length: int
) -> float:
    """Mean cross entropy in nats of the masked tokens of ``texts``, masked alike at every call."""
    objective = build_objective("mlm", encoder, {"max_length": max_length})
    if head is not None:
        load_mlm_heads(head, [objective])
    objective.to(encoder.device).eval()
    encoder.eval()
    total, count = 0.0, 0
    for first in range(0, len(texts), _BATCH):
        batch = objective.collate(texts[first : first + _BATCH], np.random.default_rng(first))
        batch = {name: tensor.to(encoder.device) for name, tensor in batch.items()}
        with torch.no_grad():
            masked = int((batch["labels"] >= 0).sum())
            total += float(objective.loss(encoder, batch).total) * masked
        count += masked
    return total / count


def unigram_entropy(tokenizer: Any, texts: list[str], max_length: int) -> float:
    r"""Entropy of the subword tokens of ``texts`` in nats, specials left out.

    .. math:: -\sum_w \hat p(w) \ln \hat p(w)

    From the texts' own counts, and so a little below that of the language: the stricter measure.
    """
    found = tokenizer(texts, truncation=True, max_length=max_length, add_special_tokens=True)
    special = set(tokenizer.all_special_ids)
    ids = [token for row in found["input_ids"] for token in row if token not in special]
    counts = np.bincount(np.array(ids)).astype(np.float64)
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum())


def intents(data: Path) -> tuple[LabelledTexts, LabelledTexts]:
    """CLINC150's requests, to learn 150 intents from and to be scored on; none out of scope."""
    folder = data / "clinc150"
    train = read_labelled_texts(folder / "train.tsv.gz", label="intent", left_out=["oos"])
    test = read_labelled_texts(
        folder / "test.tsv.gz", label="intent", left_out=["oos"], names=train.names
    )
    return train, test


def _measured(start: Start, leg: int, data: Path, device: str) -> dict[str, Any]:
    measures = {"loss": _loss, "probe": _probe, "retrieval": _retrieval}
    figures = _kept(start, leg)
    for part in start.settings["gate"]:
        if part not in figures:
            figures[part] = measures[part](start, leg, data, device)
            write_atomic(_path(start, leg), json.dumps(figures, indent=1))
    return figures


def _path(start: Start, leg: int) -> Path:
    """Beside the leg's folder; what is declared of the gate is not in its name."""
    return start.leg_folder(leg).with_suffix(".gate.json")


def _kept(start: Start, leg: int) -> dict[str, Any]:
    path = _path(start, leg)
    found: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    return found


def _loss(start: Start, leg: int, data: Path, device: str) -> dict[str, float]:
    _, held_out = start_texts(start.name, data)
    texts = held_out[:: max(1, len(held_out) // _HELD_OUT)]
    length = int(start.settings["max_length"])
    trained = to_device(start.trained(leg), device)
    loss = masked_loss(trained, start.leg_folder(leg), texts, length)
    entropy = unigram_entropy(start.tokenizer(), texts, length)
    return {"masked": loss, "unigram_entropy": entropy, "share": loss / entropy}


def _probe(start: Start, leg: int, data: Path, device: str) -> dict[str, Any]:
    asked = declared("gate")["probe"]
    train, test = intents(data)
    trained = to_device(start.trained(leg), device)
    better, drawn = (
        np.stack([_probed(encoder, train, test, asked["shots"], draw) for draw, encoder in arms])
        for arms in (
            ((draw, trained) for draw in range(asked["drawings"])),
            ((draw, to_device(start.drawn(draw), device)) for draw in range(asked["drawings"])),
        )
    )
    return _compared(better, drawn)


def _probed(
    encoder: SentenceEncoder, train: LabelledTexts, test: LabelledTexts, shots: int, draw: int
) -> NDArray[np.float64]:
    """Which test texts are told right, from one drawing of examples, float64 (texts,)."""
    (found,) = few_shot(encoder, train, test, per_class=shots, samplings=1, seed=draw)
    return found.right.astype(np.float64)


def _retrieval(start: Start, leg: int, data: Path, device: str) -> dict[str, Any]:
    asked = declared("gate")["retrieval"]
    _, test = passage_test(data)
    right = [row for _, row in test.test]
    trained = to_device(start.trained(leg), device)
    scores: dict[str, list[NDArray[np.float64]]] = {"start": [], "drawn": []}
    for seed in asked["seeds"]:
        triples = first_triples(triples_of(test, seed, asked["negatives"]), asked["questions"])
        config = PretrainingConfig(
            steps=asked["steps"],
            batch_size=asked["batch_size"],
            learning_rate=asked["learning_rate"],
            seed=seed,
            diagnose_every=0,
        )
        options = {"negatives": asked["negatives"], "query_length": 32, "max_length": 96}
        drawn = to_device(start.drawn(seed), device)
        for name, encoder in (("start", trained), ("drawn", drawn)):
            tuned = fine_tuned(encoder, triples, config, options)
            questions = tuned.encode([text for text, _ in test.test])
            ranks = dense_ranks(questions, tuned.encode(test.passages), right)
            scores[name].append(rank_scores(ranks)["recall@10"])
    return _compared(np.stack(scores["start"]), np.stack(scores["drawn"]))


def _compared(better: NDArray[np.float64], drawn: NDArray[np.float64]) -> dict[str, Any]:
    """Both float64 (drawings, texts)."""
    found: Estimate = estimated(better - drawn)
    return {
        "start": float(better.mean()),
        "drawn": float(drawn.mean()),
        "difference": [found.mean, found.low, found.high],
    }


def _passes(start: Start, figures: Mapping[str, Any]) -> bool:
    most = declared("gate")["most_of_entropy"]
    checks = {
        "loss": lambda found: found["share"] <= most,
        "probe": lambda found: found["difference"][1] > 0,
        "retrieval": lambda found: found["difference"][1] > 0,
    }
    return all(part in figures and checks[part](figures[part]) for part in start.settings["gate"])


def _wanted(start: Start) -> str:
    most = declared("gate")["most_of_entropy"]
    said = {
        "loss": f"a loss of at most {most} of the entropy of the words by themselves",
        "probe": "intents told better than from randomly initialised weights",
        "retrieval": "SQuAD's passages found better than from randomly initialised weights",
    }
    return ", ".join(said[part] for part in start.settings["gate"])


def _shown(figures: Mapping[str, Any]) -> str:
    shown = []
    for part, found in figures.items():
        if part == "loss":
            shown.append(
                f"loss {found['masked']:.3f} nats, {found['share']:.3f} of the unigram entropy "
                f"{found['unigram_entropy']:.3f}"
            )
        else:
            mean, low, high = found["difference"]
            shown.append(
                f"{part} {found['start']:.4f}, randomly initialised weights {found['drawn']:.4f}, "
                f"difference {mean:+.4f} [{low:+.4f}, {high:+.4f}]"
            )
    return "; ".join(shown)
