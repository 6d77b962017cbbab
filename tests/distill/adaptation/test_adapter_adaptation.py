"""A bundle's adapter taught by an index's hybrid ranking: real student, bundle, index, training."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pocketquery.client.adaptation.acceptance import AdaptationVerdict, judge
from pocketquery.client.bootstrap import Interval
from pocketquery.distill import (
    StudentAdaptation,
    StudentAdaptationConfig,
    StudentConfig,
    TrainingConfig,
    adapt_adapter,
    distill,
)
from pocketquery.distill.adaptation import student_adaptation
from pocketquery.distill.adaptation.low_rank import add_low_rank_changes, low_rank_tensors
from pocketquery.export.bundle.bundling import export_bundle
from pocketquery.export.settings import ExportOptions, GraphOptions
from pocketquery.sdk.bundle.adapter import read_adapter, write_adapter
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.cli import main
from pocketquery.sdk.encoder import Encoder
from pocketquery.sdk.errors import (
    ArtifactError,
    CorruptArtifactError,
    InvalidInputError,
    SpaceMismatchError,
)
from pocketquery.sdk.index.index import open_index
from pocketquery.server.modeling import SentenceEncoder
from tests.distill.adaptation.test_student_adaptation import SMALL, build, kill_adapted
from tests.tiny_models import bert_teacher, sentences

CONFIG = replace(
    SMALL, training=replace(SMALL.training, learning_rate=3e-3), interpolation=1.0, largest_drift=2
)
LEARNS = replace(
    CONFIG,
    training=replace(CONFIG.training, steps=400, learning_rate=1e-2, typo_share=0.2),
    most_queries=900,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("adapter")
    teacher = bert_teacher()
    teacher.save(folder / "teacher")
    config = TrainingConfig(steps=200, batch_size=16, nearest=2, random_documents=16)
    distill(teacher, sentences(), folder / "student", student=StudentConfig("2x64"), config=config)
    build(folder / "index", 300)
    export(folder / "student", folder / "bundle", GraphOptions(adapter_rank=4))
    return folder


def export(student: Path, bundle: Path, graph: GraphOptions) -> Bundle:
    report = export_bundle(
        student,
        bundle,
        calibration_texts=sentences(40),
        options=ExportOptions(graph=graph),
        name="tiny",
        license="Apache-2.0",
    )
    return Bundle.open(report.path)


def adapted(
    folder: Path,
    output: Path,
    config: StudentAdaptationConfig = CONFIG,
    *,
    bundle: Bundle | None = None,
    **options: Any,
) -> tuple[dict[str, Any], StudentAdaptation]:
    """The tensors, whether they were kept or not, and its result."""
    student = SentenceEncoder.load(folder / "student")
    with open_index(folder / "index") as index:
        found = adapt_adapter(
            student,
            index,
            output,
            bundle=bundle or Bundle.open(folder / "bundle"),
            teacher=SentenceEncoder.load(folder / "teacher"),
            config=config,
            **options,
        )
    return low_rank_tensors(student), found


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return all(np.array_equal(one[name], other[name]) for name in one | other)


def test_the_students_layers_compute_what_the_bundle_does_with_the_release(
    folder: Path,
) -> None:
    encoder = Encoder.of_bundle(Bundle.open(folder / "bundle"))
    drawn = np.random.default_rng(0)
    tensors = {
        name: drawn.normal(0, 0.3, value.shape).astype(np.float16).astype(np.float32)
        for name, value in encoder.adapter.items()
    }
    student = SentenceEncoder.load(folder / "student")
    texts = sentences(20)
    plain = student.encode(texts)
    add_low_rank_changes(student, tensors)
    assert same(low_rank_tensors(student), tensors)
    encoder.swap_adapter(tensors)
    theirs, ours = encoder.encode(texts), student.encode(texts)
    assert (plain * ours).sum(axis=1).max() < 0.98  # the changes are no small ones
    assert (theirs * ours).sum(axis=1).min() > 0.99


@pytest.mark.slow
def test_the_same_arguments_give_the_same_tensors_and_another_seed_others(
    folder: Path, tmp_path: Path
) -> None:
    first, found = adapted(folder, tmp_path / "a")
    second, again = adapted(folder, tmp_path / "b")
    assert same(first, second)
    assert found.verdict == again.verdict
    other = replace(CONFIG, training=replace(CONFIG.training, seed=1))
    assert not same(first, adapted(folder, tmp_path / "c", other)[0])


@pytest.mark.slow
def test_what_finds_more_is_a_release_and_nothing_else_changes(
    folder: Path, tmp_path: Path
) -> None:
    before = SentenceEncoder.load(folder / "student").state_dict()
    student = SentenceEncoder.load(folder / "student")
    bundle = Bundle.open(folder / "bundle")
    with open_index(folder / "index") as index:
        found = adapt_adapter(
            student, index, tmp_path / "one", bundle=bundle, config=LEARNS, version="9"
        )
        assert found.path == tmp_path / "one", found.verdict
        release = read_adapter(tmp_path / "one", manifest=bundle.manifest)
        assert (release.version, release.parent_version) == ("9", bundle.manifest.encoder_version)
        for name, tensor in low_rank_tensors(student).items():
            np.testing.assert_array_equal(release.tensors[name], tensor.astype(np.float16))
    after = student.state_dict()
    for name, value in before.items():
        module, _, leaf = name.rpartition(".")
        name = name if name in after else f"{module}.parametrizations.{leaf}.original"
        assert torch.equal(after[name], value), name
    assert [path.name for path in tmp_path.iterdir()] == ["one"]
    # The same from a release that says the same: what comes of it is its child.
    write_adapter(tmp_path / "five", bundle.adapter(), manifest=bundle.manifest, version="5")
    five = read_adapter(tmp_path / "five", manifest=bundle.manifest)
    _, again = adapted(folder, tmp_path / "two", LEARNS, adapter=five)
    assert again.path is not None, again.verdict
    second = read_adapter(again.path, manifest=bundle.manifest)
    assert (second.version, second.parent_version) == ("5-adapted", "5")


def test_what_finds_less_is_not_written(folder: Path, tmp_path: Path) -> None:
    diverging = replace(CONFIG, training=replace(CONFIG.training, learning_rate=2.0))
    _, refused = adapted(folder, tmp_path / "t", diverging)
    assert refused.path is None
    assert not refused.verdict.accepted
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_killed_run_ends_with_the_same_tensors(folder: Path, tmp_path: Path) -> None:
    whole, _ = adapted(folder, tmp_path / "whole")
    kill_adapted("test_adapter_adaptation", folder, tmp_path / "killed")
    assert same(adapted(folder, tmp_path / "killed")[0], whole)
    assert not (tmp_path / "killed.work").exists()


@pytest.mark.slow
def test_a_run_is_not_continued_from_another_adapter(folder: Path, tmp_path: Path) -> None:
    bundle = Bundle.open(folder / "bundle")
    own = Encoder.of_bundle(bundle).adapter
    moved = {name: tensor + np.float32(0.01) for name, tensor in own.items()}
    write_adapter(tmp_path / "moved", moved, manifest=bundle.manifest, version="2")
    kill_adapted("test_adapter_adaptation", folder, tmp_path / "one")
    release = read_adapter(tmp_path / "moved", manifest=bundle.manifest)
    with pytest.raises(ArtifactError, match="belongs to another run"):
        adapted(folder, tmp_path / "one", adapter=release)


@pytest.mark.slow
def test_a_bundle_that_the_student_does_not_fit_is_refused(folder: Path, tmp_path: Path) -> None:
    teacher = SentenceEncoder.load(folder / "teacher")
    config = TrainingConfig(steps=4, batch_size=16, nearest=2, random_documents=16, seed=5)
    for name, shape in (("deeper", "3x64"), ("twin", "2x64")):
        distill(
            teacher,
            sentences(),
            tmp_path / f"{name}-student",
            student=StudentConfig(shape),
            config=config,
        )
        export(tmp_path / f"{name}-student", tmp_path / name, GraphOptions(adapter_rank=2))
    with pytest.raises(InvalidInputError, match=r"layers\.2\.query\.down, which is of no layer"):
        adapted(folder, tmp_path / "out", bundle=Bundle.open(tmp_path / "deeper"))
    with pytest.raises(InvalidInputError, match="was exported from another student"):
        adapted(folder, tmp_path / "out", bundle=Bundle.open(tmp_path / "twin"))
    for options, said in (
        (GraphOptions(adapter_rank=0), "the bundle has no adapter"),
        (GraphOptions(adapter_train="up"), "no down beside it, which is a constant"),
    ):
        bundle = export(folder / "student", tmp_path / "other", options)
        with pytest.raises(InvalidInputError, match=said):
            adapted(folder, tmp_path / "out", bundle=bundle)


def test_tensors_of_another_width_are_refused(folder: Path) -> None:
    own = Encoder.of_bundle(Bundle.open(folder / "bundle")).adapter
    name = "adapter.layers.0.query.down"
    with pytest.raises(InvalidInputError, match=r"changes layers\.0\.query by"):
        add_low_rank_changes(
            SentenceEncoder.load(folder / "student"), own | {name: own[name][:, :-1]}
        )


def test_another_space_and_anothers_release_are_refused(folder: Path, tmp_path: Path) -> None:
    bundle = Bundle.open(folder / "bundle")
    other = bert_teacher(seed=5)
    with (
        open_index(folder / "index") as index,
        pytest.raises(SpaceMismatchError, match="the bundle is of the space"),
    ):
        adapt_adapter(other, index, tmp_path / "out", bundle=bundle)
    twin = export(folder / "student", tmp_path / "twin", GraphOptions(adapter_rank=2))
    own = Encoder.of_bundle(twin).adapter
    write_adapter(tmp_path / "theirs", own, manifest=twin.manifest, version="2")
    release = read_adapter(tmp_path / "theirs", manifest=twin.manifest)
    with pytest.raises(CorruptArtifactError, match="take one of this bundle"):
        adapted(folder, tmp_path / "out", adapter=release)


@pytest.mark.parametrize("place", ["missing/out", "student"])
def test_a_place_that_cannot_be_written_is_refused_before_the_training(
    folder: Path, place: str
) -> None:
    with pytest.raises(InvalidInputError):
        adapted(folder, folder / place)


def test_a_release_that_could_not_travel_is_refused_before_the_training(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pocketquery.sdk.bundle.adapter.LARGEST_RELEASE", 1000)
    with pytest.raises(InvalidInputError, match="at most 1000 may travel"):
        adapted(folder, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_the_command(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "adapted.safetensors"
    words = ["adapt-student", "--steps", "60", "--queries", "150", "--json"]
    for name in ("student", "teacher", "index"):
        words += [f"--{name}", str(folder / name)]
    release = ["--bundle", str(folder / "bundle"), "--version", "7"]
    status = main([*words, *release, "--output", str(output)])
    said = json.loads(capsys.readouterr().out)
    assert status == (0 if said["accepted"] else 1)
    assert output.exists() == said["accepted"]
    # The student of the bundle does as well.
    student = words.index("--student")
    alone = [*words[:student], *words[student + 2 :], "--bundle", str(folder / "bundle")]
    status = main([*alone, "--output", str(tmp_path / "alone.safetensors")])
    said = json.loads(capsys.readouterr().out)
    assert status == (0 if said["accepted"] else 1)
    assert said["queries"] == 150
    assert main([*alone[:-2], "--output", str(tmp_path / "s")]) == 2
    assert "neither --student nor --bundle" in capsys.readouterr().err
    # A release's options without its bundle are a mistake, not something to pass over.
    assert main([*words, "--version", "7", "--output", str(tmp_path / "s")]) == 2
    assert "there is no --bundle" in capsys.readouterr().err
    assert main([*words, "--bundle", str(folder / "index"), "--output", str(output)]) == 2
    assert "error:" in capsys.readouterr().err


def test_who_is_refused_because_less_is_found_reads_what_loses_less(
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def losing(*arguments: Any) -> AdaptationVerdict:
        found = judge(*arguments)
        less = found.gains | {("hybrid", "clean"): Interval(-0.008, -0.015, -0.002)}
        return replace(found, accepted=False, gains=less)

    words = ["adapt-student", "--steps", "3", "--queries", "150"]
    for name in ("student", "teacher", "index"):
        words += [f"--{name}", str(folder / name)]
    monkeypatch.setattr(student_adaptation, "judge", losing)
    assert main([*words, "--interpolation", "0.5", "--output", str(tmp_path / "s")]) == 1
    last = capsys.readouterr().out.splitlines()[-2:]
    assert last[0] == "less of the way loses less: try --interpolation 0.25"
    assert last[1] == "refused: nothing was written"


def test_the_whole_student_of_a_bundle_learns(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def accepting(*arguments: Any) -> AdaptationVerdict:
        return replace(judge(*arguments), accepted=True)  # so few steps show nothing

    monkeypatch.setattr(student_adaptation, "judge", accepting)
    words = ["adapt-student", "--steps", "3", "--queries", "150"]
    words += ["--student", str(folder / "bundle"), "--output", str(tmp_path / "adapted")]
    for name in ("teacher", "index"):
        words += [f"--{name}", str(folder / name)]
    assert main(words) == 0
    student = SentenceEncoder.load(tmp_path / "adapted")
    assert student.space["teacher"] == "teacher"  # export asks for it
    assert student.space_id == Bundle.open(folder / "bundle").manifest.space.id
