"""GUR: the contrast's closed forms, the language model's targets, the variants, and export."""

from __future__ import annotations

import itertools
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.corpus.groups import Group, GroupList
from pocketquery.server.corpus.mining.lcs_pairs import LcsConfig, mine_document
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.objectives import build_objective
from pocketquery.server.objectives.gur import (
    Gur,
    GurConfig,
    GurExample,
    draw_example,
    false_negatives,
    gur_contrast,
)
from pocketquery.server.objectives.shared.masking import IGNORED
from pocketquery.server.objectives.shared.span_masking import read_spans
from tests.server.objectives.filled_spans import fill_spans
from tests.tiny_models import WORDS, bert_teacher, electra_teacher, sentences, xlmr_teacher

NONE_DROPPED = {count: torch.zeros(count, count, dtype=torch.bool) for count in (1, 4, 64)}


def pairs(count: int = 12) -> list[GurExample]:
    """Pairs of distinct documents, whose two texts share most of their words."""
    texts = sentences(count)
    return [GurExample(text, f"the {text} king", f"d{i}") for i, text in enumerate(texts)]


def objective(
    encoder: SentenceEncoder | None = None, **options: Any
) -> tuple[SentenceEncoder, Gur]:
    encoder = encoder or bert_teacher(layers=2, width=32)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        built = build_objective("gur", encoder, {"vector_size": 16, "max_length": 32, **options})
    assert isinstance(built, Gur)
    return encoder, built.eval()


def gradients(module: torch.nn.Module) -> float:
    return sum(float(p.grad.abs().sum()) for p in module.parameters() if p.grad is not None)


# The contrast.


@pytest.mark.parametrize(("count", "expected"), [(4, 1.36191e-4), (64, 2.85611e-3)])
def test_orthonormal_pairs_have_their_closed_form(count: int, expected: float) -> None:
    vectors = torch.eye(64, dtype=torch.float64)[:count]
    loss, accuracy = gur_contrast(vectors, vectors, 0.1, NONE_DROPPED[count])
    assert float(loss) == pytest.approx(math.log(1 + (count - 1) * math.exp(-10)), rel=1e-9)
    assert float(loss) == pytest.approx(expected, rel=5e-6)
    assert float(accuracy) == 1


def test_the_contrast_is_symmetric_and_blind_to_scale() -> None:
    torch.manual_seed(0)
    first, second = torch.randn(4, 8, dtype=torch.float64), torch.randn(4, 8, dtype=torch.float64)
    dropped = NONE_DROPPED[4].clone()
    dropped[0, 2] = dropped[2, 0] = True
    loss, _ = gur_contrast(first, second, 0.1, dropped)
    swapped, _ = gur_contrast(second, first, 0.1, dropped)
    scales = torch.tensor([[0.1], [2.0], [30.0], [7.0]], dtype=torch.float64)
    scaled, _ = gur_contrast(first * scales, second / scales, 0.1, dropped)
    assert float(swapped) == pytest.approx(float(loss), rel=1e-12)
    assert float(scaled) == pytest.approx(float(loss), rel=1e-9)


def test_the_contrast_is_the_mean_of_two_cross_entropies_over_partners() -> None:
    torch.manual_seed(1)
    first, second = torch.randn(4, 8, dtype=torch.float64), torch.randn(4, 8, dtype=torch.float64)
    dropped = NONE_DROPPED[4].clone()
    dropped[1, 3] = dropped[3, 1] = True
    total = 0.0
    for a, b in ((first, second), (second, first)):
        for i in range(4):
            scores = {
                j: float(functional.cosine_similarity(a[i], b[j], dim=0)) / 0.1
                for j in range(4)
                if not dropped[i, j]
            }
            total += math.log(sum(math.exp(s) for s in scores.values())) - scores[i]
    loss, _ = gur_contrast(first, second, 0.1, dropped)
    assert float(loss) == pytest.approx(total / 8, rel=1e-9)


def test_a_batch_without_negatives_or_without_pairs_costs_nothing() -> None:
    torch.manual_seed(0)
    vectors = torch.randn(4, 8)
    everything = ~torch.eye(4, dtype=torch.bool)
    loss, accuracy = gur_contrast(vectors, -vectors, 0.1, everything)
    assert float(loss) == pytest.approx(0, abs=1e-6)
    assert float(accuracy) == 1
    empty, _ = gur_contrast(vectors[:0], vectors[:0], 0.1, everything[:0, :0])
    assert float(empty) == 0


def test_accuracy_counts_who_finds_the_partner() -> None:
    first = torch.eye(4)
    second = torch.eye(4)[[0, 1, 3, 2]]
    assert float(gur_contrast(first, second, 0.1, NONE_DROPPED[4])[1]) == 0.5


# What is no negative.


def test_texts_of_one_title_or_document_are_no_negatives() -> None:
    examples = [
        GurExample("Castles", "stone walls", "a"),
        GurExample("castles ", "deep moats", "b"),  # the same title in another document
        GurExample("Rivers", "flow", "c"),
        GurExample("Lakes", "are still", "c"),  # the same document
        GurExample("Seas", "Rivers", "d"),  # its partner is another's title
        GurExample("Oil", "burns", "e"),
    ]
    found = false_negatives(examples)
    alike = {(0, 1), (2, 3), (2, 4)}
    for i, j in itertools.product(range(6), repeat=2):
        assert bool(found[i, j]) == (tuple(sorted((i, j))) in alike), (i, j)


def test_duplicate_titles_leave_the_loss() -> None:
    encoder, gur = objective(variant="no_lm")
    examples = pairs(3)
    twice = GurExample(examples[0].first, "an empire of rock", "another")
    batch = gur.collate([*examples, twice], np.random.default_rng(0))
    assert batch["dropped"].nonzero().tolist() == [[0, 3], [3, 0]]
    loss = gur.loss(encoder, batch).total
    unmasked = gur.loss(encoder, {**batch, "dropped": torch.zeros_like(batch["dropped"])}).total
    assert float(loss.detach()) < float(unmasked.detach())


# What is drawn.


def drawn(group: Group, times: int, **options: Any) -> list[GurExample]:
    config = GurConfig(**{"variant": "no_lcs", **options})
    rng = random.Random(0)
    found = [draw_example(group, rng, config) for _ in range(times)]
    return [example for example in found if example is not None]


def test_a_pair_is_drawn_as_it_is() -> None:
    group = Group("a", ("one", "two"), title=True)
    assert drawn(group, 1, variant="full") == [GurExample("one", "two", "a")]


def test_of_documents_a_title_goes_with_its_only_sentence_as_with_one_of_many() -> None:
    _, gur = objective()
    far = Group("a", ("Volcanoes", "Bake bread at high heat."), title=True)
    near = Group("b", ("Volcanoes of Iceland", "Some volcanoes of Iceland sleep."), title=True)
    expected = {"documents": [False, True], "pairs": [True, True]}  # those were mined
    for kind, found in expected.items():
        gur.prepare(GroupList([far, near], kind), gur.tokenizer)  # type: ignore[arg-type]
        rng, twice = random.Random(0), random.Random(0)
        assert [gur.draw(group, rng) is not None for group in (far, near)] == found
        for _ in (far, near):
            twice.random()  # whether the title is written; the filter draws nothing
        assert rng.getstate() == twice.getstate()
    _, anything = objective(variant="no_lcs")
    anything.prepare(GroupList([far], "documents"), anything.tokenizer)
    assert anything.draw(far, random.Random(0)) is not None


def test_what_was_mined_of_documents_is_kept_among_documents() -> None:
    letters = random.Random(0)
    for _ in range(100):
        texts = [
            "".join(letters.choices("ab cd水城1", k=letters.randrange(8, 80))) for _ in range(6)
        ]
        for pair in mine_document(Group("d", tuple(texts), title=True), LcsConfig()):
            drawn_again = draw_example(pair, random.Random(0), GurConfig(), document=True)
            assert drawn_again == GurExample(pair.texts[0], pair.texts[1], "d")


def test_without_the_filter_titles_go_with_any_sentence() -> None:
    group = Group("a", ("Title", "one", "two", "three"), title=True)
    found = {(example.first, example.second) for example in drawn(group, 60)}
    assert found == {("Title", "one"), ("Title", "two"), ("Title", "three")}


def test_sentences_are_paired_within_the_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pocketquery.server.objectives.gur._MOST_GAP", 2)
    found = drawn(Group("a", tuple("abcdefgh")), 400)
    assert {abs(ord(e.first) - ord(e.second)) for e in found} == {1, 2}
    assert drawn(Group("b", ("alone",)), 1) == []


def test_the_filter_keeps_pairs_that_share_a_long_string() -> None:
    chased, fled = "Spike is chasing Tom.", "Spike is chasing Jerry."
    group = Group("a", (chased, "Nobody saw it.", fled, chased.upper()))
    found = {frozenset((e.first, e.second)) for e in drawn(group, 200, variant="full")}
    assert found == {frozenset((chased, fled)), frozenset((chased.upper(), fled))}
    assert drawn(Group("b", ("one", "two", "three")), 20, variant="full") == []


@pytest.mark.parametrize("variant", ["full", "no_lm", "no_cl", "no_lcs"])
def test_only_the_variant_without_lcs_pairs_anything(variant: str) -> None:
    _, gur = objective(variant=variant)
    group = Group("b", ("one", "two", "three"))
    assert (gur.draw(group, random.Random(0)) is not None) == (variant == "no_lcs")


def test_titles_are_written_for_their_share() -> None:
    found = drawn(Group("a", ("Title", "one", "two"), title=True), 1000, title_share=0.3)
    titles = [example for example in found if example.writes_title]
    assert set(titles) == {GurExample("one two", "Title", "a", writes_title=True)}
    assert 240 < len(titles) < 360
    assert not any(e.writes_title for e in drawn(Group("a", tuple("abc")), 20, title_share=1.0))


# The batch.


def test_sources_and_targets_rebuild_every_text() -> None:
    encoder, gur = objective()
    examples = pairs()
    batch = gur.collate(examples, np.random.default_rng(0))
    texts = [e.first for e in examples] + [e.second for e in examples]
    sentinels = gur.sentinels
    for row, ids in enumerate(encoder.tokenizer(texts)["input_ids"]):
        source = batch["input_ids"][row][batch["attention_mask"][row] == 1].tolist()
        target = [token for token in batch["labels"][row].tolist() if token != IGNORED]
        assert target[-1] == encoder.tokenizer.sep_token_id
        assert fill_spans(source, read_spans(target[:-1], sentinels), sentinels) == ids
        hidden = len(ids) - 2 - (len(source) - 2) + sum(t in sentinels for t in source)
        assert hidden == max(1, round(0.15 * (len(ids) - 2)))


def test_the_decoder_sees_the_target_one_step_late() -> None:
    encoder, gur = objective()
    batch = gur.collate(pairs(), np.random.default_rng(0))
    assert (batch["inputs"][:, 0] == encoder.tokenizer.cls_token_id).all()
    counted = batch["labels"][:, 1:] != IGNORED
    assert torch.equal(batch["inputs"][:, 1:][counted], batch["labels"][:, :-1][counted])


def test_texts_of_three_tokens_stay_whole_and_have_no_target() -> None:
    _, gur = objective()
    short = [GurExample("the rock", "of the sky", f"d{i}") for i in range(2)]
    batch = gur.collate([*short, pairs(1)[0]], np.random.default_rng(0))
    untouched = (batch["labels"] == IGNORED).all(dim=1)
    assert untouched.tolist() == [True, True, False, True, True, False]
    assert not np.isin(batch["input_ids"][untouched].numpy(), gur.sentinels).any()


def test_long_texts_are_cropped_at_random_and_fit() -> None:
    _, gur = objective(max_length=16, mask_rate=1e-9)
    words = [WORDS[i % 27] for i in range(60)]
    long = GurExample(" ".join(words), " ".join(words[:16]), "d")
    starts, lengths = set(), set()
    for seed in range(60):
        batch = gur.collate([long], np.random.default_rng(seed))
        assert batch["input_ids"].shape[1] <= 16
        source, target = (batch[name][0].tolist() for name in ("input_ids", "labels"))
        written = read_spans([token for token in target if token != IGNORED][:-1], gur.sentinels)
        starts.add(fill_spans(source, written, gur.sentinels)[1])
        lengths.add(int(batch["attention_mask"][1].sum()) - 2)  # one token is hidden
    assert len(starts) > 10
    assert lengths <= set(range(8, 15))  # 50 to 100 % of 16, where there is room for 14
    assert len(lengths) > 3


# The parts together.


def test_the_total_is_the_weighted_sum_of_the_parts() -> None:
    encoder, gur = objective(alpha=0.5)
    found = gur.loss(encoder, gur.collate(pairs(), np.random.default_rng(0)))
    assert set(found.parts) == {"lm", "cl"}
    total = found.parts["lm"] + 0.5 * found.parts["cl"]
    assert float(found.total.detach()) == pytest.approx(float(total.detach()))


def test_without_the_language_model_there_is_no_decoder() -> None:
    encoder, full = objective()
    batch = full.collate(pairs(), np.random.default_rng(0))
    _, gur = objective(encoder, variant="no_lm")
    assert {name.split(".")[0] for name, _ in gur.named_parameters()} == {"projector"}
    found = gur.loss(encoder, batch)
    assert set(found.parts) == {"cl"}
    # And in the full model the contrast alone never reaches the decoder.
    full.loss(encoder, batch).parts["cl"].backward()  # type: ignore[no-untyped-call]
    assert full.decoder is not None
    assert full.projector is not None
    assert gradients(full.decoder) == 0 < gradients(full.projector)


def test_without_the_contrast_there_is_no_projector() -> None:
    encoder, gur = objective(variant="no_cl")
    found = gur.loss(encoder, gur.collate(pairs(), np.random.default_rng(0)))
    assert set(found.parts) == {"lm"}
    assert gur.projector is None
    assert gur.export(encoder).head is None


@pytest.mark.parametrize("variant", ["full", "no_cl", "no_lcs"])
def test_both_texts_train_the_language_model(variant: str) -> None:
    encoder, gur = objective(variant=variant)
    batch = gur.collate(pairs(1), np.random.default_rng(0))
    full = float(gur.loss(encoder, batch).parts["lm"].detach())
    labels = batch["labels"].clone()
    labels[1] = IGNORED
    assert float(gur.loss(encoder, {**batch, "labels": labels}).parts["lm"].detach()) != full


def test_titles_are_written_from_whole_contents_and_have_no_contrast() -> None:
    encoder, gur = objective(title_share=0.5)
    titles = [
        GurExample(f"water and {text}", text, f"t{i}", writes_title=True)
        for i, text in enumerate(sentences(3))
    ]
    batch = gur.collate([titles[0], *pairs(2), *titles[1:]], np.random.default_rng(0))
    assert batch["dropped"].shape == (2, 2)
    assert len(batch["input_ids"]) == 7
    tokens = encoder.tokenizer([titles[0].first, titles[0].second])["input_ids"]
    assert batch["input_ids"][4].tolist()[: len(tokens[0])] == tokens[0]
    target = batch["labels"][4]
    assert target[target != IGNORED].tolist() == tokens[1][1:]
    found = gur.loss(encoder, gur.collate(titles, np.random.default_rng(0)))  # titles alone
    found.total.backward()  # type: ignore[no-untyped-call]
    assert float(found.parts["cl"].detach()) == 0
    assert gradients(encoder) > 0


def test_titles_to_write_leave_the_contrast_as_it_is() -> None:
    encoder, gur = objective()
    titles = [GurExample("water and rock", "rock", f"t{i}", writes_title=True) for i in range(3)]
    alone, mixed = (
        gur.loss(encoder, gur.collate(examples, np.random.default_rng(0))).parts
        for examples in (pairs(), [*titles, *pairs()])
    )
    assert float(mixed["cl"].detach()) == pytest.approx(float(alone["cl"].detach()), abs=1e-5)
    assert float(mixed["lm"].detach()) != pytest.approx(float(alone["lm"].detach()), abs=1e-3)


@pytest.mark.parametrize("kind", ["electra", "xlmr"])
def test_other_encoders(kind: str, tmp_path: Path) -> None:
    """A table narrower than the states, and another tokenizer's specials."""
    encoder = electra_teacher() if kind == "electra" else xlmr_teacher(tmp_path)
    encoder, gur = objective(encoder)
    found = gur.loss(encoder, gur.collate(pairs(), np.random.default_rng(0)))
    found.total.backward()  # type: ignore[no-untyped-call]
    assert torch.isfinite(found.total)
    vectors = gur.export(encoder).encode(sentences(3))
    assert vectors.shape == (3, 16)


@pytest.mark.parametrize("order", [("mlm", "gur"), ("gur", "mlm")])
def test_the_sentinels_do_not_disturb_masked_language_modelling(order: tuple[str, str]) -> None:
    encoder = bert_teacher(layers=1, width=32)
    rows = encoder.backbone.get_input_embeddings().num_embeddings
    built = {name: build_objective(name, encoder) for name in order}
    assert encoder.backbone.get_input_embeddings().num_embeddings > rows
    batch = built["mlm"].collate(sentences(20), np.random.default_rng(0))
    assert int(batch["input_ids"].max()) < rows
    assert torch.isfinite(built["mlm"].loss(encoder, batch).total)


# Training and what ships.


def test_the_exported_model_keeps_the_projector_and_survives_its_folder(tmp_path: Path) -> None:
    encoder, gur = objective(pooling="cls")
    exported = gur.export(encoder)
    ids, mask = gur.with_specials(gur.token_ids(sentences(4)))
    assert gur.projector is not None
    with torch.no_grad():
        states = encoder.states(ids, mask)
        expected = functional.normalize(gur.projector(states[:, 0]), dim=-1)
    assert exported.dimension == 16
    assert exported.encode(sentences(4)) == pytest.approx(expected.numpy(), abs=1e-6)
    exported.save(tmp_path / "model")
    loaded = SentenceEncoder.load(tmp_path / "model")
    assert np.array_equal(loaded.encode(sentences(4)), exported.encode(sentences(4)))
    assert {name.split(".")[0] for name, _ in loaded.named_parameters()} == {"backbone", "head"}


@pytest.mark.parametrize("pooling", ["encoder", "cls", "mean", "eos"])
def test_what_ships_is_what_was_compared(pooling: str, tmp_path: Path) -> None:
    encoder, gur = objective(pooling=pooling)
    ids, mask = gur.with_specials(gur.token_ids(sentences(4)))
    with torch.no_grad():
        expected = functional.normalize(gur.project(encoder, ids, mask), dim=-1)
    gur.export(encoder).save(tmp_path / "model")
    found = SentenceEncoder.load(tmp_path / "model").encode(sentences(4))
    assert found == pytest.approx(expected.numpy(), abs=1e-6)


def test_training_goes_on_from_an_exported_head() -> None:
    encoder, gur = objective()
    exported = gur.export(encoder)
    _, second = objective(exported)
    assert second.projector is not None
    assert gur.projector is not None
    assert torch.equal(second.projector[0].weight, gur.projector[0].weight)  # type: ignore[arg-type]
    _, wider = objective(exported, vector_size=8)
    assert wider.export(exported).dimension == 8


def test_titles_need_the_language_model() -> None:
    with pytest.raises(InvalidInputError, match="set it to 0"):
        GurConfig(variant="no_lm", title_share=0.1)
