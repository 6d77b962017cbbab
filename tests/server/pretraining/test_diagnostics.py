"""Diagnoses in a run: what they look at, that they change nothing, and that they can end it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from pocketquery.sdk.errors import ArtifactError
from pocketquery.server.corpus.groups import Group, GroupList
from pocketquery.server.evaluation.geometry import measure_geometry, partner_recall
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.objectives import build_objective
from pocketquery.server.objectives.mlm import Mlm
from pocketquery.server.objectives.objective import Batch, LossParts
from pocketquery.server.pretraining import Part
from pocketquery.server.pretraining.diagnostics import Diagnosis, Watch, diagnose
from pocketquery.server.pretraining.held_out import HeldOut, hold_out
from pocketquery.server.training.log import read_log
from tests.server.pretraining.small_run import CONFIG, documents, losses, make_encoder
from tests.tiny_models import sentences

WATCHED = replace(CONFIG, diagnose_every=3)


class _Projecting(Mlm):
    """MLM that also shows a projection of two equal columns, of rank one."""

    def project(
        self, encoder: SentenceEncoder, ids: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        return encoder.pooled(ids, mask)[:, :1].repeat(1, 8)


class _Collapsing(Mlm):
    """Draws all vectors to one point."""

    def loss(self, encoder: SentenceEncoder, batch: Batch) -> LossParts:
        pooled = encoder.pooled(batch["input_ids"], batch["attention_mask"])
        loss = (pooled - 1).square().mean()
        return LossParts(loss, {"collapse": loss})


def collapsing() -> tuple[SentenceEncoder, list[Part]]:
    encoder = make_encoder()
    return encoder, [Part(_Collapsing(encoder), documents())]


def test_it_looks_at_what_ships_and_at_what_the_loss_sees() -> None:
    encoder = make_encoder()
    found = diagnose(encoder, HeldOut(sentences(50)), [Part(_Projecting(encoder), documents())])
    assert set(found) == {"h", "z:mlm"}
    assert found["h"].geometry.eff_rank > 2
    assert found["z:mlm"].geometry.eff_rank == pytest.approx(1, abs=1e-6)


def test_the_geometry_is_that_of_the_pooled_vectors_whatever_the_batches() -> None:
    encoder = make_encoder()
    texts = sentences(150)
    ids = encoder.tokenize(texts)
    with torch.no_grad():
        vectors = encoder.pooled(ids["input_ids"], ids["attention_mask"]).numpy()
    expected = measure_geometry(vectors).figures()
    assert diagnose(encoder, HeldOut(texts))["h"].figures() == pytest.approx(expected, rel=1e-3)


def test_looking_changes_no_loss(tmp_path: Path) -> None:
    assert losses(WATCHED, run=tmp_path, held_out=HeldOut(sentences(40))) == losses()
    rows = [row for row in read_log(tmp_path / "log.jsonl") if "geometry" in row]
    assert [row["step"] for row in rows] == [0, 3, 6, 9, 12]
    assert set(rows[0]["geometry"]["h"]) >= {"std_ratio", "eff_rank", "uniformity", "hubness"}


def test_a_run_that_collapses_is_ended_when_its_patience_is_over(tmp_path: Path) -> None:
    config = replace(
        WATCHED, steps=400, learning_rate=1e-2, patience=4, diagnose_every=10, schedule="constant"
    )
    with pytest.raises(ArtifactError, match=r"have collapsed: 4 diagnoses in a row.*std_ratio"):
        losses(config, run=tmp_path, make=collapsing, held_out=HeldOut(sentences(40)))
    rows = [row for row in read_log(tmp_path / "log.jsonl") if "alarms" in row]
    assert "h.std_ratio" in rows[-1]["alarms"]
    ratios = [row["geometry"]["h"]["std_ratio"] for row in rows]
    assert ratios[-1] < 0.5 * ratios[0]


def test_an_objectives_own_alarms_are_logged_with_the_others(tmp_path: Path) -> None:
    def make() -> tuple[SentenceEncoder, list[Part]]:
        encoder = make_encoder()
        torch.manual_seed(0)
        still = {"heavy": '[{"name": "typo", "rate": 0.0}]', "light": "dropout_view"}
        queries = GroupList([Group(str(i), (t,)) for i, t in enumerate(sentences(60))], "queries")
        return encoder, [Part(build_objective("query_bert", encoder, still), queries)]

    losses(WATCHED, run=tmp_path, make=make, held_out=HeldOut(sentences(40)))
    rows = [row["alarms"] for row in read_log(tmp_path / "log.jsonl") if "alarms" in row]
    assert "query_bert.identity_typo" not in rows[0]  # nothing was drawn yet
    assert all("query_bert.identity_typo" in row for row in rows[1:])
    assert not any("dropout_view" in name for row in rows for name in row)


def test_patience_lets_a_healthy_run_of_few_held_out_texts_go_on() -> None:
    watch = Watch(1)
    few = torch.randn(30, 384, generator=torch.Generator().manual_seed(0)).numpy()
    for step in range(5):
        watch.alarms({"h": Diagnosis(measure_geometry(few))})
        watch.check(step)
    line = measure_geometry(few[:, :1].repeat(384, axis=1))  # all at one of its two ends
    watch.alarms({"h": Diagnosis(line)})
    with pytest.raises(ArtifactError, match=r"h\.eff_rank 1\).*or of the texts"):
        watch.check(5)


def test_the_count_of_alarms_survives_a_kill(tmp_path: Path) -> None:
    config = replace(
        WATCHED, steps=400, learning_rate=1e-2, patience=6, diagnose_every=4, schedule="constant"
    )
    options = {"run": tmp_path, "make": collapsing, "held_out": HeldOut(sentences(40))}
    with pytest.raises(ArtifactError) as whole:
        losses(config, **options)  # type: ignore[arg-type]
    end = read_log(tmp_path / "log.jsonl")[-1]["step"]
    (tmp_path / "log.jsonl").unlink()
    (tmp_path / "checkpoint.pt").unlink()
    losses(config, stop_after=end - 6, **options)  # type: ignore[arg-type]
    with pytest.raises(ArtifactError) as resumed:
        losses(config, **options)  # type: ignore[arg-type]
    assert str(resumed.value) == str(whole.value)


def test_without_patience_no_run_is_ended() -> None:
    watch = Watch(0)
    one_point = {"h": Diagnosis(measure_geometry(torch.ones(5, 4).numpy()))}
    for step in range(20):
        watch.alarms(one_point)
        watch.check(step)
    assert watch.in_a_row == 20


def test_an_objective_that_cannot_learn_ends_the_run_with_its_own_words() -> None:
    watch = Watch(2)
    vectors = torch.randn(400, 16, generator=torch.Generator().manual_seed(0)).numpy()
    sound = {"h": Diagnosis(measure_geometry(vectors))}
    own = ["query_bert.identity_typo"]
    assert watch.alarms(sound, own) == own
    watch.check(1)
    watch.alarms(sound)  # a good one ends the row
    watch.alarms(sound, own)
    watch.check(3)
    watch.alarms(sound, own)
    with pytest.raises(ArtifactError, match=r"cannot learn: 2 diagnoses.*identity_typo"):
        watch.check(4)


def test_only_collapse_counts_and_a_good_diagnosis_ends_the_row() -> None:
    watch = Watch(2)
    spread = measure_geometry(
        torch.randn(400, 16, generator=torch.Generator().manual_seed(0)).numpy()
    )
    point = measure_geometry(torch.ones(5, 4).numpy())
    narrow = replace(spread, mean_cos=0.95)
    for geometry in (point, narrow, point, spread, point):
        watch.alarms({"h": Diagnosis(geometry)})
        watch.check(1)
    assert watch.alarms({"h": Diagnosis(narrow)}) == ["h.mean_cos"]


def test_held_out_texts_are_spaced_evenly_and_never_trained_on() -> None:
    source = documents(100)
    rest, found = hold_out(source, 5)
    texts = found.texts
    assert len(rest) == 95
    assert len(texts) == 5
    left = {text for row in range(len(rest)) for text in rest[row].texts}
    assert not left & set(texts)
    assert rest.fingerprint not in (source.fingerprint, hold_out(source, 6).source.fingerprint)
    assert rest.counts().tolist() == [1] * 95
    assert rest.lengths().tolist() == [len(rest[row].texts[0]) for row in range(95)]
    assert rest.kind == "documents"
    assert [rest.languages[code] for code in rest.language_codes()] == [""] * 95


def test_no_more_than_a_tenth_is_held_out() -> None:
    assert len(hold_out(documents(100), 1000).held_out) == 10
    small = documents(9)
    assert hold_out(small, 5) == (small, HeldOut())
    few = documents(15)  # a tenth of them is one text, which has no geometry
    assert hold_out(few, 5) == (few, HeldOut())


def test_of_each_group_the_longest_text_is_held_out_and_its_neighbour_with_it() -> None:
    groups = [
        Group("1", ("a title", "the longest sentence", "the last"), lang="en", title=True),
        Group("2", ("first", "the longest of all"), lang="de"),
        Group("3", ("alone", " "), lang="de"),
    ]
    assert HeldOut.of_groups(groups) == HeldOut(
        ("the longest sentence", "the longest of all", "alone"),
        ("the last", "first", ""),
        ("en", "de", "de"),
    )
    triple = Group("4", ("a query", "the answer", "a negative longer than all"))
    assert HeldOut.of_groups([triple], asked=True) == HeldOut(("the answer",), ("a query",), ("",))
    both = HeldOut.together([HeldOut.of_groups(groups[:1]), HeldOut.of_groups(groups[1:])])
    assert both.texts == list(HeldOut.of_groups(groups).texts)
    assert both.languages == ["en", "de", "de"]
    mixed = HeldOut.together([HeldOut(["unknown"]), both])
    assert mixed.partners == ["", *both.partners]
    assert mixed.languages == ["", *both.languages]


class _LookedUp(Mlm):
    """MLM that shows given vectors of given texts."""

    vectors: dict[str, list[float]]

    def project(
        self, encoder: SentenceEncoder, ids: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        texts = encoder.tokenizer.batch_decode(ids, skip_special_tokens=True)
        return torch.tensor([self.vectors[text] for text in texts])


def test_partners_and_languages_are_looked_at_where_they_are_known() -> None:
    encoder = make_encoder()
    ids = encoder.tokenizer(sentences(140))["input_ids"]
    texts = list(dict.fromkeys(encoder.tokenizer.batch_decode(ids, True)))[:100]
    drawn = torch.randn(100, 16, generator=torch.Generator().manual_seed(0))
    drawn[:25, 0] += 9  # a language in a corner of its own
    drawn[50:90] = drawn[:40] + 0.01  # the partners, but of ten texts
    objective = _LookedUp(encoder)
    objective.vectors = dict(zip(texts, drawn.tolist(), strict=True))

    def relations(*held_out: Sequence[str]) -> Mapping[str, float]:
        return diagnose(encoder, HeldOut(*held_out), [part])["z:mlm"].relations

    part = Part(objective, documents())
    languages = ["de"] * 25 + ["en"] * 25
    found = relations(texts[:50], texts[50:], languages)
    near = torch.nn.functional.normalize(drawn, dim=1)
    assert found["alignment"] == pytest.approx(
        float((near[:50] - near[50:]).square().sum(dim=1).mean()), rel=1e-5
    )
    assert 0.8 <= found["partner_recall@10"] < 1  # German all, of the English fifteen and some
    assert found["lang_probe"] > 0.9
    assert set(relations(texts[:50], texts[50:])) == {"alignment", "partner_recall@10"}
    few = [*texts[50:60], *[""] * 40]
    assert set(relations(texts[:50], few, languages)) == {"lang_probe"}
    assert relations(texts[:50]) == {}
    assert "lang_probe" not in relations(texts[:50], few, ["de"] * 25 + [""] * 25)


def test_collapsed_vectors_find_no_partner() -> None:
    assert partner_recall(np.ones((30, 4)), np.ones((30, 4))) == 0
    rows = np.eye(30)
    assert partner_recall(rows, rows, neighbours=1) == 1
    assert partner_recall(rows, np.roll(rows, 1, axis=0), neighbours=1) == 0
