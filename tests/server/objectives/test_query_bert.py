"""Query-BERT: targets, gradients, what collapses and what does not, and resuming."""

from __future__ import annotations

import copy
import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.corpus.groups import Group
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.objectives.objective import Batch
from pocketquery.server.objectives.query_bert import QueryBert, QueryBertConfig
from pocketquery.server.objectives.shared.byol import byol_loss
from pocketquery.server.objectives.shared.span_masking import sentinel_ids
from tests.tiny_models import WORDS, bert_teacher, sentences, wordpiece_tokenizer

QUERIES = [Group(str(i), (text,)) for i, text in enumerate(sentences(64))]
FRAMEWORKS = ("bsl", "bsl_noema", "simsiam")


def tiny(**options: Any) -> tuple[SentenceEncoder, QueryBert]:
    """An encoder without dropout, in training, and its objective; the same at every call."""
    encoder = bert_teacher(layers=1, width=32)
    torch.manual_seed(0)
    objective = QueryBert(encoder, QueryBertConfig(**options))
    modules: list[Any] = [*encoder.modules(), *objective.modules()]
    for module in modules:
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        if hasattr(module, "dropout_prob"):  # where attention is computed in one call
            module.dropout_prob = 0.0
    return encoder.train(), objective.train()


def batch_of(objective: QueryBert, seed: int = 0, count: int = 16) -> Batch:
    rng = random.Random(seed)
    examples = [objective.draw(group, rng) for group in rng.sample(QUERIES, count)]
    return objective.collate([e for e in examples if e is not None], np.random.default_rng(0))


def trained(encoder: SentenceEncoder, objective: QueryBert) -> list[nn.Parameter]:
    return [p for p in [*encoder.parameters(), *objective.parameters()] if p.requires_grad]


def steps(
    encoder: SentenceEncoder,
    objective: QueryBert,
    optimizer: torch.optim.Optimizer,
    span: range,
    of: int = 20,
) -> list[float]:
    losses = []
    for step in span:
        torch.manual_seed(step)
        batch = batch_of(objective, step)
        loss = objective.loss(encoder, batch).total
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
        objective.after_step(encoder, batch, step, of)
        losses.append(float(loss.detach()))
    return losses


def test_the_loss_is_that_of_the_networks_run_one_by_one() -> None:
    encoder, objective = tiny()
    assert objective.target is not None
    with torch.no_grad():
        for parameter in objective.target.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    batch = batch_of(objective)
    ids, mask = batch["input_ids"].view(4, 16, -1), batch["attention_mask"].view(4, 16, -1)
    q, z = [], []
    for view in range(4):
        length = int(mask[view].sum(dim=1).max())  # without the padding of the other views
        own = ids[view, :, :length], mask[view, :, :length]
        q.append(objective.predictor(objective.projector(encoder.pooled(*own))))
        z.append(objective.target.projector(objective.target.encoder.pooled(*own)))
    expected = byol_loss(torch.stack(q), torch.stack(z[:2]))
    found = objective.loss(encoder, batch)
    torch.testing.assert_close(found.total, expected, atol=1e-5, rtol=1e-5)
    assert found.parts["byol"] is found.total


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_targets_have_no_gradient_and_are_not_trained(framework: str) -> None:
    encoder, objective = tiny(framework=framework)
    learnt = {name for name, p in objective.named_parameters() if p.requires_grad}
    assert {name.partition(".")[0] for name in learnt} == {"projector", "predictor"}
    batch = batch_of(objective)
    online = torch.randn(4, 16, 32, requires_grad=True)
    assert not objective._targets(
        online, batch["input_ids"], batch["attention_mask"], 4
    ).requires_grad
    objective.loss(encoder, batch).total.backward()  # type: ignore[no-untyped-call]
    assert all(parameter.grad is not None for parameter in trained(encoder, objective))
    if objective.target is not None:
        assert all(parameter.grad is None for parameter in objective.target.parameters())


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_heavy_view_moves_no_target(framework: str) -> None:
    encoder, objective = tiny(framework=framework)
    batch = batch_of(objective)
    ids, mask = batch["input_ids"], batch["attention_mask"]
    other = ids.clone()
    other[32:, 1] = (other[32:, 1] + 1) % len(objective.tokenizer)  # views 3 and 4
    online = project_all(encoder, objective, ids, mask)
    changed = project_all(encoder, objective, other, mask)
    assert (online[2:] - changed[2:]).abs().max() > 1e-3
    torch.testing.assert_close(
        objective._targets(online, ids, mask, 4), objective._targets(changed, other, mask, 4)
    )


def project_all(
    encoder: SentenceEncoder, objective: QueryBert, ids: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    return torch.stack([objective.projector(h) for h in encoder.pooled(ids, mask).chunk(4)])


def test_the_target_sees_views_one_and_two_once() -> None:
    encoder, objective = tiny()
    assert objective.target is not None
    batch, seen = batch_of(objective), []
    objective.target.encoder.backbone.register_forward_pre_hook(
        lambda module, args, given: seen.append(given["input_ids"]), with_kwargs=True
    )
    objective.loss(encoder, batch)
    assert len(seen) == 1
    assert torch.equal(seen[0], batch["input_ids"][:32])


def test_a_target_without_momentum_becomes_the_new_online_network() -> None:
    encoder, objective = tiny(momentum=0.0)
    assert objective.target is not None
    before = copy.deepcopy(encoder.state_dict())
    steps(encoder, objective, torch.optim.AdamW(trained(encoder, objective), lr=1e-3), range(1))
    for name, parameter in objective.target.encoder.named_parameters():
        assert torch.equal(parameter, encoder.get_parameter(name))
    for name, parameter in objective.target.projector.named_parameters():
        assert torch.equal(parameter, objective.projector.get_parameter(name))
    assert any(not torch.equal(before[name], p) for name, p in encoder.named_parameters())


def test_the_momentum_is_the_schedules() -> None:
    encoder, objective = tiny(momentum=0.9)  # cosine: 0.95 in the middle of the run
    assert objective.target is not None
    name = "backbone.embeddings.word_embeddings.weight"
    old = objective.target.encoder.get_parameter(name).clone()
    with torch.no_grad():
        encoder.get_parameter(name).add_(1)
    objective.after_step(encoder, {}, 50, 100)
    moved = objective.target.encoder.get_parameter(name) - old
    torch.testing.assert_close(moved, torch.full_like(moved, 0.05), atol=1e-5, rtol=1e-4)


def test_without_ema_the_target_is_copied_now_and_then() -> None:
    encoder, objective = tiny(framework="bsl_noema", target_every=3)
    assert objective.target is not None
    optimizer, found = torch.optim.AdamW(trained(encoder, objective), lr=1e-3), []
    for step in range(5):
        before = [p.clone() for p in objective.target.parameters()]
        steps(encoder, objective, optimizer, range(step, step + 1))
        after = objective.target.parameters()
        found.append(int(any(not torch.equal(a, b) for a, b in zip(before, after, strict=True))))
    assert found == [0, 0, 1, 0, 0]


def test_tokens_that_were_added_since_reach_no_row_of_the_target() -> None:
    """Another objective's: the copy keeps to the table it was made of, whatever a text spells."""
    encoder, objective = tiny(framework="bsl", momentum=0.5)
    assert objective.target is not None
    rows = encoder.backbone.get_input_embeddings().num_embeddings
    before = objective.target.encoder.backbone.get_input_embeddings().weight.clone()
    sentinel_ids(encoder, 6)
    with torch.no_grad():
        encoder.backbone.get_input_embeddings().weight.add_(1)
    view = objective.draw(Group("q", ("<extra_id_0> castle rock",)), random.Random(0))
    assert view is not None
    batch = objective.collate([view] * 4, np.random.default_rng(0))
    assert int(batch["input_ids"].max()) >= rows
    found = objective.loss(encoder, batch).total
    found.backward()  # type: ignore[no-untyped-call]
    assert torch.isfinite(found)
    objective.after_step(encoder, batch, 0, 10**9)
    after = objective.target.encoder.backbone.get_input_embeddings().weight
    torch.testing.assert_close(after, before + 0.5)


def test_projections_can_be_looked_at_apart_from_what_ships() -> None:
    encoder, objective = tiny()
    batch = batch_of(objective)
    objective.loss(encoder, batch)
    encoder.eval()
    objective.eval()
    ids, mask = batch["input_ids"], batch["attention_mask"]
    found = objective.project(encoder, ids, mask)
    assert found.shape == (64, 32)
    torch.testing.assert_close(objective.project(encoder, ids[:1], mask[:1]), found[:1])


def test_unchanged_views_are_counted_by_augmenter() -> None:
    encoder, objective = tiny(heavy='[{"name": "typo", "rate": 0.0}]', light="dropout_view")
    stats = objective.loss(encoder, batch_of(objective)).stats
    assert stats["identity_typo"] == 1
    encoder, objective = tiny(heavy="shuffle", light="dropout_view")
    assert float(objective.loss(encoder, batch_of(objective)).stats["identity_shuffle"]) < 0.2


def test_an_augmenter_that_leaves_too_many_queries_as_they_were_is_alarming() -> None:
    _, objective = tiny()
    figures = {"byol": 0.9, "identity_typo": 0.21, "identity_shuffle": 0.2}
    assert objective.alarms(figures | {"identity_dropout_view": 1.0}) == ["identity_typo"]


def test_groups_divide_the_width() -> None:
    with pytest.raises(InvalidInputError, match="no multiple of 5 groups"):
        QueryBert(bert_teacher(layers=1, width=32), QueryBertConfig(groups=5))


class _Bag(nn.Module):
    """Token embeddings without context: the quickest encoder that can collapse."""

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.table = nn.Embedding(vocabulary, width)
        self.config = SimpleNamespace(hidden_size=width)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> Any:
        return (self.table(input_ids),)

    def get_input_embeddings(self) -> nn.Embedding:
        return self.table


def spread_after_training(
    steps: int, *, predicts: bool = True, **options: Any
) -> tuple[float, float]:
    """Loss and spread of the projections after training on pairs of bags of words."""
    torch.manual_seed(0)
    tokenizer = wordpiece_tokenizer()
    encoder = SentenceEncoder(_Bag(len(tokenizer), 64), tokenizer, max_length=48)
    objective = QueryBert(encoder, QueryBertConfig(projector="mlp", **options))
    if not predicts:
        objective.predictor = nn.Sequential()
    optimizer = torch.optim.AdamW(trained(encoder, objective), lr=1e-3)
    rng = random.Random(0)
    for step in range(steps):
        topics = [rng.sample(WORDS, 6) for _ in range(64)]
        texts = [[" ".join(rng.sample(words, 4)) for _ in range(2)] for words in topics]
        views = [objective.draw(Group("", tuple(pair)), rng) for pair in texts]
        batch = objective.collate([v for v in views if v], np.random.default_rng(0))
        found = objective.loss(encoder, batch)
        found.total.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
        objective.after_step(encoder, batch, step, steps)
    return float(found.total.detach()), float(found.stats["z_std_ratio"])


@pytest.mark.slow
def test_without_a_predictor_the_loss_is_perfect_and_the_vectors_are_one() -> None:
    loss, spread = spread_after_training(200, framework="simsiam", predicts=False)
    assert loss < -0.95
    assert spread < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"framework": "simsiam"}])
def test_with_all_asymmetries_the_vectors_stay_apart(options: dict[str, Any]) -> None:
    loss, spread = spread_after_training(200, **options)
    assert spread > 0.5
    assert loss < -0.5
