from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pocketquery.distill import StudentConfig, TrainingConfig, distill
from pocketquery.distill.batches import BatchStream
from pocketquery.distill.losses import cosine_loss
from pocketquery.distill.pruning.product_codes import product_codes
from pocketquery.distill.targets import nearest_documents, prepare_targets
from pocketquery.distill.vector_file import FileTeacher
from pocketquery.sdk.errors import ArtifactError, InvalidInputError
from pocketquery.server.modeling import SentenceEncoder, weights_fingerprint
from pocketquery.server.training.checkpoints import save_checkpoint
from tests.kills import killed_process
from tests.tiny_models import bert_teacher, sentences

CONFIG = TrainingConfig(
    steps=24,
    batch_size=16,
    learning_rate=2e-3,
    max_length=32,
    nearest=2,
    random_documents=16,
    typo_share=0.3,
    checkpoint_every=8,
)


def run(output: Path, config: TrainingConfig = CONFIG) -> str:
    distill(
        bert_teacher(),
        sentences(),
        output,
        documents=sentences(40),
        student=StudentConfig("2x32"),
        config=config,
    )
    return weights_fingerprint(SentenceEncoder.load(output).state_dict())


def test_the_student_moves_towards_the_teacher_on_texts_it_has_not_seen(tmp_path: Path) -> None:
    teacher, texts = bert_teacher(), sentences(300)
    config = replace(CONFIG, steps=150, typo_share=0.0)
    report = distill(
        teacher, texts[:200], tmp_path / "s", student=StudentConfig("2x64"), config=config
    )
    student = SentenceEncoder.load(tmp_path / "s")
    held_out = texts[200:]
    start = bert_teacher()
    start.backbone.encoder.layer = start.backbone.encoder.layer[::2]
    target = teacher.encode(held_out)
    before = float((start.encode(held_out) * target).sum(axis=1).mean())
    after = float((student.encode(held_out) * target).sum(axis=1).mean())
    assert after > before + 0.1
    assert report.space_id == student.space_id == teacher.space_id


def test_the_teacher_is_only_read(tmp_path: Path) -> None:
    teacher = bert_teacher()
    before = weights_fingerprint(teacher.state_dict())
    distill(
        teacher,
        sentences(),
        tmp_path / "s",
        student=StudentConfig("2x64"),
        config=replace(CONFIG, steps=3),
    )
    assert weights_fingerprint(teacher.state_dict()) == before
    assert all(parameter.grad is None for parameter in teacher.parameters())


def test_a_teacher_is_not_replaced_by_its_student(tmp_path: Path) -> None:
    bert_teacher().save(tmp_path / "t")
    teacher = SentenceEncoder.load(tmp_path / "t")
    (tmp_path / "link").symlink_to("t")
    with pytest.raises(InvalidInputError, match="link holds t, which is only read"):
        distill(teacher, sentences(), tmp_path / "link", student=StudentConfig("2x64"))
    assert SentenceEncoder.load(tmp_path / "t").space_id == teacher.space_id


def test_an_adapted_student_does_not_pass_for_the_distilled_one(tmp_path: Path) -> None:
    run(tmp_path / "s", replace(CONFIG, steps=1))
    student = SentenceEncoder.load(tmp_path / "s")
    student.space |= {"adaptation": {}}  # as adapt_student does
    student.save(tmp_path / "s")
    with pytest.raises(InvalidInputError, match="as it was adapted later"):
        run(tmp_path / "s", replace(CONFIG, steps=1))


@pytest.mark.slow
def test_an_interrupted_run_ends_with_the_same_weights(tmp_path: Path) -> None:
    whole = run(tmp_path / "whole")
    script = (
        "import sys, torch; from pathlib import Path; torch.set_num_threads(int(sys.argv[2]))\n"
        "from tests.distill.test_distillation import run\n"
        "run(Path(sys.argv[1]))\n"
    )
    output = tmp_path / "killed"
    checkpoint = tmp_path / "killed.work" / "checkpoint.pt"
    killed_process(script, output, torch.get_num_threads(), until=checkpoint)
    assert run(output) == whole
    assert not (tmp_path / "killed.work").exists()
    log = [json.loads(line) for line in (output / "distillation.jsonl").read_text().splitlines()]
    assert log[-1]["step"] == CONFIG.steps


def test_a_log_goes_on_where_the_training_does(tmp_path: Path) -> None:
    """Neither what another run left nor half a line of a kill stands in it."""
    work = tmp_path / "s.work"
    work.mkdir()
    (work / "log.jsonl").write_text('{"step": 8, "theirs": 1}\n{"step": 16, "the')
    run(tmp_path / "s")
    lines = (tmp_path / "s" / "distillation.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["step"] for row in rows] == [8, 16, 24]
    assert not any("theirs" in row for row in rows)


def test_a_finished_run_returns_at_once_and_another_is_made_anew(tmp_path: Path) -> None:
    first = run(tmp_path / "s")
    stamp = (tmp_path / "s" / "model.safetensors").stat().st_mtime_ns
    assert run(tmp_path / "s") == first
    assert (tmp_path / "s" / "model.safetensors").stat().st_mtime_ns == stamp
    assert run(tmp_path / "s", replace(CONFIG, seed=1)) != first


def test_a_student_that_teaches_is_told_from_another_of_its_space(tmp_path: Path) -> None:
    config, found = replace(CONFIG, steps=2), []
    for seed in (0, 1):
        teacher = bert_teacher(seed=seed, space={"space_id": "space-of-their-teacher"})
        shape = StudentConfig("2x64")
        distill(teacher, sentences(), tmp_path / "s", student=shape, config=config)
        found.append(SentenceEncoder.load(tmp_path / "s").state_dict())
    assert weights_fingerprint(found[0]) != weights_fingerprint(found[1])


def test_a_work_folder_of_another_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "s.work").mkdir()
    save_checkpoint(tmp_path / "s.work" / "checkpoint.pt", {"seed": 9}, {"step": 1})
    with pytest.raises(ArtifactError, match="belongs to another run"):
        run(tmp_path / "s")


def test_a_loss_that_is_not_finite_stops_the_run(tmp_path: Path) -> None:
    teacher = bert_teacher()
    with torch.no_grad():
        teacher.backbone.embeddings.LayerNorm.weight.fill_(float("inf"))
    with pytest.raises(ArtifactError, match="the loss is not finite by step 2"):
        distill(
            teacher,
            sentences(),
            tmp_path / "s",
            student=StudentConfig("2x64"),
            config=replace(CONFIG, steps=2, checkpoint_every=2),
        )
    assert not (tmp_path / "s").exists()


def test_weights_that_the_last_step_spoils_are_not_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_steep(online: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        online.register_hook(  # type: ignore[no-untyped-call]
            lambda gradient: gradient * float("inf")
        )
        return cosine_loss(online, target)

    monkeypatch.setattr("pocketquery.distill.training.cosine_loss", too_steep)
    with pytest.raises(ArtifactError, match="the weights are not finite by step 1"):
        run(tmp_path / "s", replace(CONFIG, steps=1))
    assert not (tmp_path / "s").exists()


def test_pruned_vocabulary_through_the_whole_run(tmp_path: Path) -> None:
    report = distill(
        bert_teacher(),
        sentences()[:40],
        tmp_path / "s",
        student=StudentConfig("2x32", vocabulary_size=100),
        config=replace(CONFIG, steps=2),
    )
    assert report.vocabulary <= 100
    assert len(SentenceEncoder.load(tmp_path / "s").tokenizer) == report.vocabulary


def test_no_texts_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="no training texts"):
        distill(bert_teacher(), [], tmp_path / "s")


def test_batches_are_a_function_of_the_step() -> None:
    def stream() -> BatchStream:
        return BatchStream(
            sentences(),
            bert_teacher().tokenizer,
            batch_size=16,
            max_length=32,
            seed=3,
            typo_share=0.5,
        )

    forward = [stream()[step].input_ids.tolist() for step in range(30)]
    one = stream()
    backward = [one[step].input_ids.tolist() for step in reversed(range(30))][::-1]
    assert forward == backward
    rows = torch.cat([one[step].rows for step in range(12)]).tolist()  # one epoch: 200 // 16
    assert len(set(rows)) == len(rows) == 192


def test_what_an_epoch_leaves_out_does_not_depend_on_length() -> None:
    texts = [*("short" for _ in range(15)), *("a much longer text " * 4 for _ in range(5))]
    stream = BatchStream(texts, bert_teacher().tokenizer, batch_size=16, max_length=32, seed=3)
    long = sum(int((stream[epoch].rows >= 15).sum()) for epoch in range(40))
    assert 120 < long < 200  # 160 of the 200 are expected; sorted first, 40 were read


def test_the_query_prompt_is_part_of_what_the_student_reads(tmp_path: Path) -> None:
    stream = BatchStream(
        ["castle rock"],
        bert_teacher().tokenizer,
        batch_size=1,
        max_length=32,
        seed=0,
        typo_share=1.0,
        typo_rate=0.5,
        prompt="water king ",
    )
    prompt = bert_teacher().tokenizer("water king")["input_ids"][:-1]
    for step in range(5):
        assert stream[step].input_ids[0, : len(prompt)].tolist() == prompt
    # A student of all the teacher's layers starts as the teacher, so its first loss is 0: unless
    # one of them reads the prompt and the other does not.
    distill(
        bert_teacher(prompts={"query": "water king "}),
        sentences(16),
        tmp_path / "s",
        student=StudentConfig("3x64"),
        config=replace(CONFIG, steps=1, typo_share=0.0),
    )
    log = json.loads((tmp_path / "s" / "distillation.jsonl").read_text())
    assert log["cosine_loss"] < 1e-5


def test_a_log_that_a_kill_left_behind_joins_the_finished_student(tmp_path: Path) -> None:
    run(tmp_path / "s")
    (tmp_path / "s.work").mkdir()
    (tmp_path / "s" / "distillation.jsonl").rename(tmp_path / "s.work" / "log.jsonl")
    run(tmp_path / "s")
    assert (tmp_path / "s" / "distillation.jsonl").is_file()
    assert not (tmp_path / "s.work").exists()


def test_a_killed_run_with_other_settings_is_left_to_go_on(tmp_path: Path) -> None:
    run(tmp_path / "s")
    log = (tmp_path / "s" / "distillation.jsonl").read_text()
    other = tmp_path / "s.work"
    other.mkdir()
    save_checkpoint(other / "checkpoint.pt", {"seed": 9}, {"step": 1})
    (other / "log.jsonl").write_text("{}")
    run(tmp_path / "s")  # says that it is finished
    assert {path.name for path in other.iterdir()} == {"checkpoint.pt", "log.jsonl"}
    assert (tmp_path / "s" / "distillation.jsonl").read_text() == log


def test_what_else_lies_in_the_work_folder_stays(tmp_path: Path) -> None:
    notes = tmp_path / "s.work" / "notes.npy"
    notes.parent.mkdir()
    notes.write_text("mine")
    run(tmp_path / "s")
    assert list(notes.parent.iterdir()) == [notes]


def test_one_text_is_enough(tmp_path: Path) -> None:
    config = replace(CONFIG, steps=2)
    report = distill(
        bert_teacher(), ["castle"], tmp_path / "s", student=StudentConfig("1x32"), config=config
    )
    assert report.texts == 1
    assert np.isfinite(SentenceEncoder.load(tmp_path / "s").encode(["castle", ""])).all()


def test_nearest_documents_equals_a_full_sort() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((600, 8)).astype(np.float32)
    documents = rng.standard_normal((50, 8)).astype(np.float32)
    expected = np.argsort(-(vectors @ documents.T), axis=1)[:, :5]
    np.testing.assert_array_equal(nearest_documents(vectors, documents, 5), expected)
    assert nearest_documents(vectors, documents, 99).shape == (600, 50)


def test_targets_without_documents_rank_the_other_texts(tmp_path: Path) -> None:
    targets = prepare_targets(bert_teacher(), sentences(50), [], tmp_path, nearest=3)
    assert targets.nearest.shape == (50, 3)
    assert not any(row in nearest for row, nearest in enumerate(targets.nearest))


def test_in_a_narrow_space_a_student_is_less_drawn_to_the_mean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors = np.random.default_rng(0).standard_normal((200, 24)).astype(np.float32)
    vectors[:, 0] += 20  # a length of .97 is shared
    np.savez(tmp_path / "v.npz", text=np.array(sentences(200)), vector=vectors)
    config = replace(CONFIG, steps=60, typo_share=0.0)

    def distance(name: str) -> float:
        teacher = FileTeacher(tmp_path / "v.npz")
        shape = StudentConfig("2x64")
        distill(
            teacher,
            teacher.texts,
            tmp_path / name,
            student=shape,
            start=bert_teacher(),
            config=config,
        )
        found = SentenceEncoder.load(tmp_path / name).encode(sentences(400)[200:])
        return float(np.linalg.norm(found - found.mean(axis=0), axis=1).mean())

    about_the_mean = distance("mean")
    monkeypatch.setattr(
        "pocketquery.distill.distillation.prepare_targets",
        lambda *given, **named: replace(prepare_targets(*given, **named), mean=0.0),
    )
    assert about_the_mean > 1.2 * distance("origin")


def test_targets_are_encoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    teacher = bert_teacher()
    first = prepare_targets(teacher, sentences(50), sentences(9), tmp_path, nearest=3)
    monkeypatch.delattr(SentenceEncoder, "encode")  # a second encoding would fail
    again = prepare_targets(teacher, sentences(50), sentences(9), tmp_path, nearest=3)
    np.testing.assert_array_equal(first.vectors, again.vectors)


def test_a_student_learns_on_and_keeps_its_vocabulary(tmp_path: Path) -> None:
    teacher, texts = bert_teacher(), sentences(300)
    shape = StudentConfig("2x64-pq8", vocabulary_size=120)
    first = distill(teacher, texts[:100], tmp_path / "first", student=shape, config=CONFIG)
    start = SentenceEncoder.load(tmp_path / "first")
    before = weights_fingerprint(start.state_dict())
    config = replace(CONFIG, steps=60, learning_rate=4e-4)
    report = distill(teacher, texts[100:200], tmp_path / "second", start=start, config=config)
    second = SentenceEncoder.load(tmp_path / "second")
    assert weights_fingerprint(start.state_dict()) == before
    assert report.vocabulary_statistics == first.vocabulary_statistics
    assert second.tokenizer.get_vocab() == start.tokenizer.get_vocab()
    table = second.backbone.get_input_embeddings().weight.detach().numpy()
    assert product_codes(table, 8)[0].shape == (len(table), 8)  # still codes, which export finds
    target = teacher.encode(texts[200:])

    def likeness(encoder: SentenceEncoder) -> float:
        return float((encoder.encode(texts[200:]) * target).sum(axis=1).mean())

    assert likeness(second) > likeness(start)


@pytest.fixture(scope="module")
def coded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a student whose table is of codes."""
    folder = tmp_path_factory.mktemp("coded") / "first"
    shape = StudentConfig("2x64-pq8")
    distill(bert_teacher(), sentences(), folder, student=shape, config=CONFIG)
    return folder


def test_a_student_that_stays_where_it_is_is_the_same(coded: Path, tmp_path: Path) -> None:
    start = SentenceEncoder.load(coded)
    still = replace(CONFIG, steps=1, learning_rate=1e-12, weight_decay=0.0)
    distill(bert_teacher(), sentences(), tmp_path / "second", start=start, config=still)
    second = SentenceEncoder.load(tmp_path / "second")
    assert np.allclose(second.encode(sentences()), start.encode(sentences()), atol=1e-6)


def test_a_student_may_stop_halfway(coded: Path, tmp_path: Path) -> None:
    """Between two students of one table of codes is one of the same codes."""
    start = SentenceEncoder.load(coded)
    config = replace(CONFIG, steps=5)
    for name, way in (("whole", 1.0), ("half", 0.5)):
        distill(
            bert_teacher(), sentences(), tmp_path / name, start=start, config=config,
            interpolation=way,
        )  # fmt: skip
    whole, half = (SentenceEncoder.load(tmp_path / name).state_dict() for name in ("whole", "half"))
    for name, before in start.state_dict().items():
        torch.testing.assert_close(half[name], (before + whole[name]) / 2)
    assert any(not torch.equal(half[name], whole[name]) for name in half)
    table = half["backbone.embeddings.word_embeddings.weight"].numpy()
    assert product_codes(table, 8)[0].shape == (len(table), 8)


def test_a_student_may_go_on_wider(tmp_path: Path) -> None:
    shape = StudentConfig("2x64x32-pq8")
    distill(bert_teacher(), sentences(), tmp_path / "first", student=shape, config=CONFIG)
    start = SentenceEncoder.load(tmp_path / "first")
    still = replace(CONFIG, steps=1, learning_rate=1e-12, weight_decay=0.0)
    wider = tmp_path / "wider"
    report = distill(bert_teacher(), sentences(), wider, start=start, feed_forward=96, config=still)
    assert report.student == "2x64x96-pq8"
    found = SentenceEncoder.load(wider)
    assert found.backbone.encoder.layer[1].output.dense.weight.shape == (64, 96)
    np.testing.assert_allclose(found.encode(sentences()), start.encode(sentences()), atol=1e-6)
    distill(  # and from there once more, to units that are read
        bert_teacher(), sentences(), tmp_path / "taught", start=found, config=CONFIG
    )
    taught = SentenceEncoder.load(tmp_path / "taught")
    assert taught.backbone.encoder.layer[1].output.dense.weight[:, 32:].any()
    for width in (96, 64, 992):
        with pytest.raises(InvalidInputError, match=r"FFN is \d+ wide"):
            distill(bert_teacher(), sentences(), tmp_path / "no", start=found, feed_forward=width)


def test_what_cannot_be_learnt_on_from_is_refused(tmp_path: Path) -> None:
    run(tmp_path / "s", replace(CONFIG, steps=1))
    start = SentenceEncoder.load(tmp_path / "s")

    def refused(start: SentenceEncoder, message: str, **options: Any) -> None:
        with pytest.raises(InvalidInputError, match=message):
            distill(bert_teacher(), sentences(), tmp_path / "t", start=start, **options)

    refused(start, "student and start are both given", student=StudentConfig("2x32"))
    refused(start, "interpolation is 2, expected a number from 0 to 1", interpolation=2)
    with pytest.raises(InvalidInputError, match=r"interpolation is 0\.5 without start"):
        distill(bert_teacher(), sentences(), tmp_path / "t", interpolation=0.5)
    with pytest.raises(InvalidInputError, match="feed_forward is 96 without start"):
        distill(bert_teacher(), sentences(), tmp_path / "t", feed_forward=96)
    with pytest.raises(InvalidInputError, match="s holds s, which is only read"):
        distill(bert_teacher(), sentences(5), tmp_path / "s", start=start, config=CONFIG)
    adapted = SentenceEncoder.load(tmp_path / "s")
    adapted.space["adaptation"] = {}
    refused(adapted, "was adapted; expected one as distill")
