"""Auto-MLM around an encoder: its batches, switches, statistics, and the bottleneck it opens."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.corpus.groups import Group
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.objectives import Batch, LossParts, build_objective
from pocketquery.server.objectives.auto_mlm import AutoMlm
from pocketquery.server.objectives.shared.masking import IGNORED
from pocketquery.server.objectives.shared.text_pairs import TextPair
from tests.tiny_models import WORDS, bert_teacher, sentences

TEACHER = bert_teacher(layers=1, width=32)
TEXTS = sentences(20)


def objective(encoder: SentenceEncoder = TEACHER, **options: Any) -> AutoMlm:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        built = build_objective("auto_mlm", encoder, options)
    assert isinstance(built, AutoMlm)
    return built


def pairs(count: int = 4) -> list[TextPair]:
    return [TextPair(str(i), user=TEXTS[2 * i], agent=TEXTS[2 * i + 1]) for i in range(count)]


def alone(count: int = 3) -> list[TextPair]:
    return [TextPair(f"alone {i}", user=TEXTS[10 + i]) for i in range(count)]


def batch_of(built: AutoMlm, examples: list[TextPair], seed: int = 0) -> Batch:
    return built.collate(examples, np.random.default_rng(seed))


def test_agents_come_first_then_their_users_then_the_texts_that_stand_alone() -> None:
    built = objective()
    batch = batch_of(built, [*alone(1), *pairs(2)])
    texts = built.tokenizer.batch_decode(batch["input_ids"], skip_special_tokens=True)
    given = [TEXTS[1], TEXTS[3], TEXTS[0], TEXTS[2], TEXTS[10]]
    assert texts == given
    assert batch["dropped"].shape == (2, 2)


def test_a_batch_never_holds_two_pairs_of_one_session() -> None:
    group = Group("s", tuple(TEXTS[:6]), ("user", "agent") * 3)
    built, rng = objective(), random.Random(0)
    twice = [built.draw(group, rng) for _ in range(6)]
    assert len(set(twice)) > 1
    batch = batch_of(built, [*(pair for pair in twice if pair), *pairs(2)])
    assert len(batch["dropped"]) == 3


def test_pairs_with_an_equal_text_are_no_negatives() -> None:
    same = [
        TextPair("0", user="water castle", agent="rock"),
        TextPair("1", user="Water  Castle", agent="sugar"),
        TextPair("2", user="leaf", agent="empire"),
        TextPair("3", user="empire", agent="battle"),
        TextPair("4", user="king", agent="Rock"),
    ]
    built = objective()
    dropped = batch_of(built, same)["dropped"]
    assert dropped[0, 1]
    assert dropped[1, 0]
    assert dropped[2, 3]  # the agent of 2 says what the user of 3 says
    assert dropped[0, 4]
    assert dropped[4, 0]
    assert not dropped[0, 2]
    parts = built.loss(TEACHER, batch_of(built, same[:2])).parts
    assert float(parts["contrastive"].detach()) == 0  # its only two negatives are left out


def test_logits_are_computed_at_the_masked_positions_alone() -> None:
    built, rows = objective(), []
    built.head.dense.register_forward_hook(lambda _, __, states: rows.append(len(states)))
    batch = batch_of(built, pairs())
    built.loss(TEACHER, batch)
    assert rows == 2 * [int((batch["labels"] != IGNORED).sum())]  # also through another's vector
    assert rows[0] < batch["labels"].numel() / 2


def test_the_total_is_the_weighted_sum_of_the_parts() -> None:
    built = objective(weight=0.5, contrast_weight=2.0)
    found = built.loss(TEACHER, batch_of(built, pairs()))
    by_hand = 2 * found.parts["contrastive"] + 0.5 * found.parts["auto_mlm"]
    assert torch.equal(found.total, by_hand)
    assert set(objective(weight=0).loss(TEACHER, batch_of(built, pairs())).parts) == {"contrastive"}


def test_the_unmasked_texts_are_encoded_once_for_both_terms() -> None:
    built, shapes = objective(), []
    hook = TEACHER.backbone.register_forward_hook(
        lambda _, __, output: shapes.append(len(output[0]))
    )
    built.loss(TEACHER, batch_of(built, pairs(4)))
    hook.remove()
    assert shapes == [8, 8]  # clean, masked


def gradient_at(built: AutoMlm, name: str, batch: Batch) -> torch.Tensor:
    parameter = dict(TEACHER.named_parameters())[name]
    (found,) = torch.autograd.grad(built.loss(TEACHER, batch).total, parameter)
    return found


def test_the_vector_reaches_the_masked_tokens_only_where_it_is_its_own() -> None:
    own, none = objective(contrast_weight=0), objective(contrast_weight=0, vector="none")
    batch = batch_of(own, pairs())
    losses = [float(built.loss(TEACHER, batch).total.detach()) for built in (own, none)]
    assert abs(losses[0] - losses[1]) > 1e-3
    assert float(none.loss(TEACHER, batch).stats["bottleneck_gain"]) == 0
    name = "backbone.encoder.layer.0.output.dense.weight"
    assert not torch.equal(gradient_at(own, name, batch), gradient_at(none, name, batch))


@pytest.mark.parametrize("examples", [alone(4), [*pairs(1), *alone(1)]])
def test_texts_without_partners_train_the_auto_encoding_term_alone(
    examples: list[TextPair],
) -> None:
    built = objective()
    found = built.loss(TEACHER, batch_of(built, examples))
    assert float(found.parts["contrastive"].detach()) == 0
    assert float(found.parts["auto_mlm"].detach()) > 0
    assert "active_pairs" not in found.stats
    only_contrast = objective(weight=0).loss(TEACHER, batch_of(built, examples)).total
    only_contrast.backward()  # type: ignore[no-untyped-call]
    assert float(only_contrast.detach()) == 0
    TEACHER.zero_grad()


def test_texts_that_stand_alone_leave_the_hinge_of_the_pairs_as_it_is() -> None:
    built = objective()
    found = [
        float(built.loss(TEACHER, batch_of(built, examples)).parts["contrastive"].detach())
        for examples in (pairs(), [*alone(), *pairs()])
    ]
    assert found[0] == pytest.approx(found[1], abs=1e-5)


def test_documents_pairs_and_queries_give_batches() -> None:
    groups = [
        Group("session", tuple(TEXTS[:4]), ("user", "agent") * 2),
        Group("titled", tuple(TEXTS[4:8]), title=True),
        Group("pair", (TEXTS[8], TEXTS[9])),
        Group("document", tuple(TEXTS[10:15])),
        Group("query", (TEXTS[15],)),
        Group("empty", ("",)),
    ]
    built, rng = objective(), random.Random(0)
    drawn = [built.draw(group, rng) for group in groups]
    assert drawn[-1] is None
    batch = batch_of(built, [pair for pair in drawn if pair])
    assert len(batch["dropped"]) == 3
    assert len(batch["input_ids"]) == 8
    assert torch.isfinite(built.loss(TEACHER, batch).total)


def test_the_hinges_level_is_one_where_all_vectors_are_equal() -> None:
    built = objective()
    batch = batch_of(built, pairs())
    batch["input_ids"] = batch["input_ids"][:1].repeat(8, 1)
    batch["attention_mask"] = torch.ones_like(batch["input_ids"])
    found = built.loss(TEACHER, batch)
    assert float(found.stats["hinge_level"]) == pytest.approx(1, abs=1e-4)
    assert float(found.parts["contrastive"].detach()) == pytest.approx(3 * 0.1, abs=1e-4)
    assert float(found.stats["active_pairs"]) == 1


def train(
    encoder: SentenceEncoder, built: AutoMlm, steps: int, rng: random.Random, rate: float = 3e-3
) -> list[LossParts]:
    optimizer = torch.optim.AdamW([*encoder.parameters(), *built.parameters()], lr=rate)
    found = []
    for step in range(steps):
        words = [" ".join(rng.choices(WORDS, k=5)) for _ in range(48)]
        examples = [TextPair(str(i), user=text) for i, text in enumerate(words)]
        parts = built.loss(encoder, batch_of(built, examples, step))
        parts.total.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
        found.append(parts)
    return found


def late(found: list[LossParts], name: str) -> float:
    return float(np.mean([float(parts.stats[name]) for parts in found[-30:]]))


@pytest.mark.slow
def test_random_words_are_rebuilt_through_the_vector_and_not_without_it() -> None:
    accuracy, gain = {}, {}
    for vector in ("own", "none"):
        encoder = bert_teacher(layers=1, width=32)
        built = objective(encoder, vector=vector, contrast_weight=0)
        found = train(encoder, built, 200, random.Random(0))
        accuracy[vector], gain[vector] = (
            late(found, "auto_accuracy"),
            late(found, "bottleneck_gain"),
        )
    assert accuracy["own"] > accuracy["none"] + 0.1
    assert gain["own"] > 0.1  # another sentence's vector takes the advantage away
    assert abs(accuracy["own"] - gain["own"] - accuracy["none"]) < 0.06
    assert gain["none"] == 0


def test_no_term_at_all_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="contrast_weight"):
        objective(weight=0.0, contrast_weight=0.0)
