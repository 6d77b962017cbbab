"""A student taught by an index's hybrid ranking, with a real index and a real training."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pocketquery.client.training.hybrid_teacher import hybrid_rankings
from pocketquery.distill import (
    StudentAdaptation,
    StudentAdaptationConfig,
    StudentConfig,
    TrainingConfig,
    adapt_student,
    adapter_config,
    distill,
)
from pocketquery.distill.adaptation import student_adaptation
from pocketquery.distill.adaptation.command import adapt_student as adapt_student_command
from pocketquery.distill.adaptation.student_adaptation import _targets
from pocketquery.distill.training import interpolate
from pocketquery.sdk.cli import main
from pocketquery.sdk.errors import ArtifactError, InvalidInputError, SpaceMismatchError
from pocketquery.sdk.index.builder import create_index
from pocketquery.sdk.index.documents import Document
from pocketquery.sdk.index.index import open_index
from pocketquery.sdk.indexing.building import build_index
from pocketquery.server.modeling import SentenceEncoder, weights_fingerprint
from tests.kills import killed_process
from tests.tiny_models import bert_teacher, sentences

SMALL = StudentAdaptationConfig(
    training=replace(
        StudentAdaptationConfig().training,
        steps=12,
        batch_size=8,
        learning_rate=1e-3,
        nearest=10,
        random_documents=8,
        checkpoint_every=4,
    ),
    most_queries=150,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return begun(tmp_path_factory.mktemp("adaptation"), 4)


def begun(folder: Path, steps: int) -> Path:
    """``folder`` with a teacher, a student after so many steps and an index."""
    teacher = bert_teacher()
    teacher.save(folder / "teacher")
    config = TrainingConfig(steps=steps, batch_size=16, nearest=2, random_documents=16)
    distill(teacher, sentences(), folder / "student", student=StudentConfig("2x64"), config=config)
    build(folder / "index", 300)
    return folder


def build(path: Path, count: int, teacher: SentenceEncoder | None = None) -> None:
    teacher = teacher or bert_teacher()
    documents = [
        Document(str(number), f"{text}. {other}.", {"title": f"{text[:12]} notes"})
        for number, (text, other) in enumerate(
            zip(sentences(count), reversed(sentences(count)), strict=True)
        )
    ]
    build_index(
        documents,
        teacher.encode_document,
        path,
        space_id=teacher.space_id,
        dimension=teacher.dimension,
    )


def adapted(
    folder: Path, output: Path, config: StudentAdaptationConfig = SMALL
) -> tuple[str, StudentAdaptation]:
    """The fingerprint of the weights, whether they were kept or not, and its result."""
    student = SentenceEncoder.load(folder / "student")
    teacher = SentenceEncoder.load(folder / "teacher")
    with open_index(folder / "index") as index:
        found = adapt_student(student, index, output, teacher=teacher, config=config)
    return weights_fingerprint(student.state_dict()), found


@pytest.mark.slow
def test_the_same_arguments_give_the_same_weights_and_another_seed_others(
    folder: Path, tmp_path: Path
) -> None:
    first, found = adapted(folder, tmp_path / "a")
    second, again = adapted(folder, tmp_path / "b")
    other = replace(SMALL, training=replace(SMALL.training, seed=1))
    assert first == second
    assert found.verdict == again.verdict
    assert adapted(folder, tmp_path / "c", other)[0] != first


@pytest.mark.slow
def test_the_student_comes_nearer_to_the_hybrid_ranking(folder: Path, tmp_path: Path) -> None:
    training = replace(SMALL.training, steps=150, cosine_weight=0.1, typo_share=0.0)
    teacher = bert_teacher()
    student = SentenceEncoder.load(folder / "student")
    with open_index(folder / "index") as index:
        asked = [document.text[:30] for document in index.documents()]
        wanted = hybrid_rankings(index, asked, teacher.encode_query(asked), 10, 0.1)
        before = kl(student, asked, wanted)
        adapt_student(
            student,
            index,
            tmp_path / "s",
            teacher=teacher,
            config=replace(SMALL, training=training),
        )
    assert kl(student, asked, wanted) < 0.9 * before


@pytest.mark.slow
def test_the_teachers_own_ranking_may_be_taught_instead(folder: Path, tmp_path: Path) -> None:
    plain = replace(SMALL, ranked_by="teacher")
    assert adapted(folder, tmp_path / "a", plain)[0] != adapted(folder, tmp_path / "b")[0]


def test_half_the_way_is_between_the_weights(folder: Path) -> None:
    student = SentenceEncoder.load(folder / "student")
    start = {name: torch.zeros_like(value) for name, value in student.state_dict().items()}
    trained = {name: value.clone() for name, value in student.state_dict().items()}
    interpolate(student, start, 1.0)
    assert weights_fingerprint(student.state_dict()) == weights_fingerprint(trained)
    interpolate(student, start, 0.5)
    for name, value in student.state_dict().items():
        wanted = trained[name] / 2 if value.is_floating_point() else trained[name]
        torch.testing.assert_close(value, wanted, rtol=0, atol=0)


def test_half_of_each_ranking_is_between_them(folder: Path) -> None:
    teacher = bert_teacher()
    with open_index(folder / "index") as index:
        texts = [document.text[:30] for document in index.documents()]
        hybrid, both = (
            _targets(index, texts, teacher, replace(SMALL, ranked_by=ranked_by)).shares
            for ranked_by in ("hybrid", "both")
        )
        found = _targets(index, texts, teacher, replace(SMALL, ranked_by="teacher"))
    assert hybrid is not None
    assert both is not None
    np.testing.assert_allclose(both.sum(axis=1), 1, rtol=1e-5)
    meaning = 2 * both - hybrid
    cosines = np.einsum("nkd,nd->nk", found.documents[found.nearest], found.vectors)
    order = np.argsort(-cosines, axis=1, kind="stable")
    assert (np.diff(np.take_along_axis(meaning, order, 1), axis=1) <= 1e-6).all()


def kl(student: SentenceEncoder, asked: list[str], wanted: Any) -> float:
    """Mean divergence of the student's softmax from the hybrid's, over the hybrid's first ten."""
    total = 0.0
    for vector, rows, shares in zip(
        student.encode_query(asked), wanted.ranked, wanted.shares, strict=True
    ):
        logits = wanted.documents.vectors(rows) @ vector / 0.05
        given = np.exp(logits - logits.max())
        total += float((shares * np.log(shares * given.sum() / given)).sum())
    return total / len(asked)


@pytest.mark.slow
def test_what_finds_more_is_saved_with_its_space_and_what_does_not_is_not(
    folder: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    training = replace(SMALL.training, learning_rate=0.5)
    diverging = replace(SMALL, training=training, interpolation=1.0)
    _, refused = adapted(folder, tmp_path / "new" / "folders" / "t", diverging)
    assert refused.path is None
    assert not refused.verdict.accepted
    assert not (tmp_path / "new").exists()
    # Of a model drawn at random all texts move with any of them.
    longer = replace(
        SMALL,
        training=replace(SMALL.training, steps=600, learning_rate=3e-3),
        most_queries=900,
        interpolation=1.0,
        largest_drift=2.0,
    )
    # A student that has hardly begun ranks by words alone, and any change is worse for that.
    folder = begun(tmp_path_factory.mktemp("spread"), 200)
    _, found = adapted(folder, tmp_path / "s", longer)
    assert found.path == tmp_path / "s", found.verdict
    student = SentenceEncoder.load(found.path)
    assert student.space_id == bert_teacher().space_id
    table = student.backbone.get_input_embeddings().weight
    before = SentenceEncoder.load(folder / "student").backbone.get_input_embeddings().weight
    assert torch.equal(table, before)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s"]


@pytest.mark.slow
def test_weights_that_move_too_far_go_less_of_the_way(folder: Path, tmp_path: Path) -> None:
    _, free = adapted(folder, tmp_path / "a", replace(SMALL, largest_drift=2.0))
    assert free.interpolation == SMALL.interpolation
    least = free.verdict.drift / 2
    _, held = adapted(folder, tmp_path / "b", replace(SMALL, largest_drift=least))
    assert held.verdict.drift <= least
    assert 0.05 < held.interpolation < SMALL.interpolation


def kill_adapted(module: str, folder: Path, output: Path) -> None:
    """Call ``adapted`` of a module beside this one and kill it at its first checkpoint."""
    script = (
        "import sys, torch; from pathlib import Path; torch.set_num_threads(int(sys.argv[3]))\n"
        f"from tests.distill.adaptation.{module} import adapted\n"
        "adapted(Path(sys.argv[2]), Path(sys.argv[1]))\n"
    )
    checkpoint = output.with_name(output.name + ".work") / "checkpoint.pt"
    killed_process(script, output, folder, torch.get_num_threads(), until=checkpoint)


@pytest.mark.slow
def test_a_killed_run_ends_with_the_same_weights(folder: Path, tmp_path: Path) -> None:
    whole, _ = adapted(folder, tmp_path / "whole")
    kill_adapted("test_student_adaptation", folder, tmp_path / "killed")
    assert adapted(folder, tmp_path / "killed")[0] == whole
    assert not (tmp_path / "killed.work").exists()


def test_a_killed_run_is_not_continued_on_another_index(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    student = SentenceEncoder.load(folder / "student")
    with open_index(folder / "index") as index:
        documents = list(index.documents())
        vectors = index.vectors().vectors(np.arange(len(documents)))
    turned = np.roll(vectors, 1, axis=0)  # the same texts, so the same queries
    for place, rows in (("same", vectors), ("turned", turned)):
        with create_index(
            tmp_path / place, space_id=student.space_id, dimension=student.dimension
        ) as builder:
            builder.add(documents, rows)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(student_adaptation, "interpolate", interrupted)  # after the training
    with open_index(tmp_path / "same") as index, pytest.raises(KeyboardInterrupt):
        adapt_student(student, index, tmp_path / "out", config=SMALL)
    student = SentenceEncoder.load(folder / "student")
    with (
        open_index(tmp_path / "turned") as index,
        pytest.raises(ArtifactError, match="belongs to another run"),
    ):
        adapt_student(student, index, tmp_path / "out", config=SMALL)


def test_a_work_folder_of_another_run_is_refused(folder: Path, tmp_path: Path) -> None:
    from pocketquery.server.training.checkpoints import save_checkpoint

    (tmp_path / "s.work").mkdir()
    save_checkpoint(tmp_path / "s.work" / "checkpoint.pt", {"seed": 9}, {"step": 1})
    with pytest.raises(ArtifactError, match="belongs to another run"):
        adapted(folder, tmp_path / "s")


def test_the_teacher_is_not_replaced(folder: Path) -> None:
    with pytest.raises(InvalidInputError, match="teacher holds teacher, which is only read"):
        adapted(folder, folder / "teacher")


@pytest.mark.parametrize("which", ["index", "teacher"])
def test_another_space_is_refused(folder: Path, tmp_path: Path, which: str) -> None:
    student, other = SentenceEncoder.load(folder / "student"), bert_teacher(seed=5)
    build(tmp_path / "index", 150, other if which == "index" else None)
    teacher = other if which == "teacher" else None
    with (
        open_index(tmp_path / "index") as index,
        pytest.raises(SpaceMismatchError, match=f"the {which} is of the space"),
    ):
        adapt_student(student, index, tmp_path / "s", teacher=teacher, config=SMALL)


def test_a_teachers_ranking_needs_a_teacher(folder: Path, tmp_path: Path) -> None:
    student = SentenceEncoder.load(folder / "student")
    config = replace(SMALL, ranked_by="teacher")
    with (
        open_index(folder / "index") as index,
        pytest.raises(InvalidInputError, match="there is no teacher, expected one"),
    ):
        adapt_student(student, index, tmp_path / "s", config=config)


def test_the_commands_defaults_are_the_configurations() -> None:
    parser = argparse.ArgumentParser()
    adapt_student_command(parser.add_subparsers())
    words = ["adapt-student", "--student", "s", "--index", "i", "--output", "o"]
    found = parser.parse_args(words)
    for config in (StudentAdaptationConfig(), adapter_config()):
        assert found.rank == config.ranked_by
        assert found.interpolation == config.interpolation
        assert found.queries == config.most_queries
        assert found.stretches == config.stretches
        assert (found.steps, found.seed) == (config.training.steps, config.training.seed)
    with pytest.raises(SystemExit):
        parser.parse_args([*words, "--queries", "0"])


def test_the_command(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["adapt-student", "--steps", "3", "--queries", "150", "--rank", "teacher", "--json"]
    for name in ("student", "teacher", "index"):
        words += [f"--{name}", str(folder / name)]
    status = main([*words, "--output", str(tmp_path / "s")])
    said = json.loads(capsys.readouterr().out)
    assert status == (0 if said["accepted"] else 1)
    assert 0 < said["interpolation"] <= 0.75
    assert (tmp_path / "s").exists() == said["accepted"]
    assert main([*words, "--output", str(folder)]) == 2
    assert "is not a sentence-transformers folder" in capsys.readouterr().err
