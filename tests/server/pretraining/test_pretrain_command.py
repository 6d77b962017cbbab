"""The command: from raw files to a model, what it says, and what it refuses."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from pocketquery.sdk.errors import InvalidInputError, UnknownModelError
from pocketquery.server.corpus import Group, GroupList, write_text_store
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.mlm_head import MlmHead, save_mlm_head
from pocketquery.server.objectives import OBJECTIVES
from pocketquery.server.pretraining import Part
from pocketquery.server.pretraining.command_parts import parse_objectives, parse_options
from pocketquery.server.pretraining.pretrain_command import pretrain
from tests.commands import run_command
from tests.tiny_models import bert_teacher, sentences

SMALL = "--steps 4 --batch-size 4 --diagnose-every 2 --log-every 2 --init nano --vocabulary 400"


def command(*arguments: str) -> int:
    return run_command(pretrain, "pretrain", *arguments)


@pytest.fixture
def documents(tmp_path: Path) -> str:
    """Forty documents of three sentences each, a blank line between them."""
    found = sentences(120)
    blocks = ["\n".join(f"{s}." for s in found[i : i + 3]) for i in range(0, 120, 3)]
    path = tmp_path / "documents.txt"
    path.write_text("\n\n".join(blocks), encoding="utf-8")
    return str(path)


def test_from_raw_text_to_a_model_and_on_from_it(
    tmp_path: Path, documents: str, capsys: pytest.CaptureFixture[str]
) -> None:
    base = str(tmp_path / "base")
    assert command("--documents", documents, "--output", base, *SMALL.split()) == 0
    assert "trained   4 steps" in capsys.readouterr().out
    assert SentenceEncoder.load(base).dimension == 128

    sessions = tmp_path / "sessions.jsonl"
    lines = [
        {"id": str(i), "turns": [["U", sentences(80)[2 * i]], ["S", sentences(80)[2 * i + 1]]]}
        for i in range(40)
    ]
    sessions.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    further = ["--init", base, "--sessions", str(sessions), "--documents", documents]
    further += ["--objective", "contrastive=1,mlm=0.5", "--set", "contrastive.loss=info_nce"]
    further += ["--steps", "3", "--batch-size", "4", "--max-length", "32", "--json"]
    assert command(*further, "--output", str(tmp_path / "next")) == 0
    figures = json.loads(capsys.readouterr().out)
    assert {"contrastive/info_nce", "mlm/mlm", "tokens_per_second"} <= set(figures["last"])
    assert SentenceEncoder.load(tmp_path / "next").max_length == 32


@pytest.mark.slow
def test_masked_language_modelling_goes_on_with_the_head_it_had(
    tmp_path: Path, documents: str
) -> None:
    base, after = tmp_path / "base", tmp_path / "after"
    assert command("--documents", documents, "--output", str(base), *SMALL.split()) == 0
    further = ["--init", str(base), "--documents", documents, "--steps", "1", "--batch-size", "4"]
    assert command(*further, "--learning-rate", "1e-9", "--output", str(after)) == 0
    before, found = (load_file(folder / "mlm_head.safetensors") for folder in (base, after))
    assert all(torch.allclose(before[name], found[name], atol=1e-6) for name in before)


@pytest.mark.slow
@pytest.mark.parametrize("objectives", ["mlm=1,gur=1", "gur=1,mlm=1"])
def test_it_does_so_beside_gur_which_adds_tokens_to_the_vocabulary(
    tmp_path: Path, documents: str, objectives: str, capsys: pytest.CaptureFixture[str]
) -> None:
    base, after = tmp_path / "base", tmp_path / "after"
    assert command("--documents", documents, "--output", str(base), *SMALL.split()) == 0
    capsys.readouterr()
    further = ["--init", str(base), "--documents", documents, "--steps", "1", "--batch-size", "4"]
    further += [
        "--sentence-lines",
        "--objective",
        objectives,
        "--learning-rate",
        "1e-9",
        "--output",
        str(after),
    ]
    assert command(*further) == 0
    before, found = (load_file(folder / "mlm_head.safetensors") for folder in (base, after))
    rows = len(before["bias"])
    assert rows == SentenceEncoder.load(base).backbone.get_input_embeddings().num_embeddings
    assert (len(found["bias"]) > rows) == objectives.startswith("gur")
    found["bias"] = found["bias"][:rows]
    assert before["bias"].any()  # a new one's is zero
    assert all(torch.allclose(before[name], found[name], atol=1e-6) for name in before)
    assert "new head" not in capsys.readouterr().err


@pytest.mark.parametrize(("objective", "said"), [("mlm", 1), ("simcse", 0)])
def test_a_head_that_does_not_fit_is_told_in_one_line(
    tmp_path: Path,
    documents: str,
    objective: str,
    said: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    start = tmp_path / "start"
    bert_teacher(layers=1, width=16).save(start)
    save_mlm_head(start, [MlmHead(bert_teacher(layers=1, width=32))])
    further = ["--init", str(start), "--documents", documents, "--steps", "1", "--batch-size", "4"]
    further += ["--objective", objective, "--output", str(tmp_path / "after")]
    assert command(*further) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if "new head" in line]
    assert len(lines) == said
    for line in lines:
        assert f"the head in {start / 'mlm_head.safetensors'} was made for another encoder" in line
        assert "dense.weight is 32x32, expected 16x16" in line


@pytest.mark.slow
def test_a_drawn_encoder_takes_no_head_of_a_folder_that_is_called_like_its_shape(
    tmp_path: Path, documents: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nano").mkdir()
    (tmp_path / "nano" / "mlm_head.safetensors").write_bytes(b"not to be read")
    assert command("--documents", documents, "--output", "model", *SMALL.split()) == 0


def test_a_store_and_turns_of_two_objectives(tmp_path: Path) -> None:
    groups = GroupList([Group(str(i), (s, s)) for i, s in enumerate(sentences(40))], "documents")
    write_text_store(tmp_path / "store", (groups[i] for i in range(40)), "documents")
    bert_teacher(layers=1, width=16).save(tmp_path / "start")
    arguments = ["--init", str(tmp_path / "start"), "--documents", str(tmp_path / "store")]
    arguments += ["--objective", "simcse,mlm=3", "--mixture", "turns", "--steps", "6"]
    arguments += ["--batch-size", "4", "--log-every", "1", "--output", str(tmp_path / "model")]
    assert command(*arguments) == 0
    rows = [json.loads(x) for x in (tmp_path / "model/pretraining.jsonl").read_text().splitlines()]
    trained = [{name.split("/")[0] for name in row if "/" in name} for row in rows if "loss" in row]
    assert all(len(names) == 1 for names in trained)


def kill(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    """A run that ends before its first step, when vocabulary and table are made."""

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("pocketquery.server.pretraining.training_run.pretrain_to_folder", die)
        with pytest.raises(KeyboardInterrupt):
            command(*arguments)


def test_a_killed_run_takes_the_vocabulary_and_the_table_it_had_made(
    tmp_path: Path, documents: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["--documents", documents, "--output", str(tmp_path / "model"), *SMALL.split()]
    kill(monkeypatch, *arguments)
    with monkeypatch.context() as patched:  # neither is built anew
        patched.setattr("pocketquery.server.corpus.new_tokenizer.train_tokenizer", None)
        patched.setattr("pocketquery.server.modeling.cooccurrence.Cooccurrence", None)
        assert command(*arguments) == 0
    assert not (tmp_path / "model.work").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "changed",
    [
        ["--documents", "{other}"],
        ["--vocabulary", "360"],
        ["--vocabulary-kind", "wordpiece"],
        ["--seed", "1"],
    ],
)
def test_a_run_of_other_texts_or_settings_takes_nothing_of_a_killed_one(
    tmp_path: Path, documents: str, changed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other.txt"
    text = Path(documents).read_text(encoding="utf-8")
    other.write_text(text.replace("water", "wine").replace("rock", "rye"), encoding="utf-8")
    arguments = ["--documents", documents, *SMALL.split()]
    kill(monkeypatch, *arguments, "--output", str(tmp_path / "late"))
    kept = set((tmp_path / "late.work").iterdir())
    arguments += [word.format(other=other) for word in changed]
    kill(monkeypatch, *arguments, "--output", str(tmp_path / "late"))
    assert kept <= set((tmp_path / "late.work").iterdir())  # the first run may still go on
    for folder in ("late", "fresh"):
        assert command(*arguments, "--output", str(tmp_path / folder)) == 0
    late, fresh = (
        json.loads((tmp_path / folder / "pretraining.json").read_text())["identity"]
        for folder in ("late", "fresh")
    )
    assert late == fresh  # the weights at the start and the vocabulary are in it


def test_weights_are_read_and_one_alone_is_one() -> None:
    assert parse_objectives("gur=1,auto_mlm=0.5, mlm") == {"gur": 1, "auto_mlm": 0.5, "mlm": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bert", 'unknown objective "bert"; known are mlm, simcse'),
        ("", 'unknown objective ""; known are'),
        ("mlm=much", 'the weight of mlm is "much"'),
        ("mlm=1,gur=inf", 'the weight of gur is "inf"; expected a finite number'),
        ("gur=-inf", 'the weight of gur is "-inf"; expected a finite number'),
        ("gur=nan", 'the weight of gur is "nan"; expected a finite number'),
        ("gur=1e400", 'the weight of gur is "1e400"; expected a finite number'),
        ("mlm,mlm=2", "named twice"),
    ],
)
def test_bad_objectives_are_refused_with_what_is_known(text: str, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        parse_objectives(text)


def test_options_belong_to_an_objective_that_is_trained() -> None:
    assert parse_options(["gur.temperature=0.1", "gur.a=b=c"], ["gur", "mlm"]) == {
        "gur": {"temperature": "0.1", "a": "b=c"},
        "mlm": {},
    }
    for setting in ("gur.temperature", "temperature=0.1", "gur.=1"):
        with pytest.raises(InvalidInputError, match=r"expected OBJECTIVE\.OPTION=VALUE"):
            parse_options([setting], ["gur"])
    with pytest.raises(InvalidInputError, match='"ccp" is not trained; expected gur'):
        parse_options(["ccp.window=3"], ["gur"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "nothing to learn from; expected one or more of --documents"),
        (
            "--documents {0} --objective fine_tune",
            "fine_tune has nothing to learn from; expected --tri",
        ),
        ("--documents {0} --set mlm.rate=1", 'no option "rate"; it has mask_rate'),
        ("--documents {0} --objective mlm=0", "the weight of mlm is 0.0"),
        ("--documents {0} --init {1} --vocabulary 900", "--vocabulary goes with a preset"),
        ("--documents {0} {1}", "several places and a store"),
    ],
)
def test_what_cannot_be_done_is_refused(
    tmp_path: Path, documents: str, arguments: str, message: str
) -> None:
    filled = arguments.format(documents, tmp_path).split()
    output = ["--output", str(tmp_path / "model")]
    shape = [] if "--init" in filled else ["--init", "nano", "--vocabulary", "400"]
    with pytest.raises(InvalidInputError, match=message):
        command(*filled, *shape, *output)
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--device cuda:99", 'the device "cuda:99" cannot be used'),
        ("--device abacus", 'the device "abacus" cannot be used'),
        ("--output .", "exists and is not a sentence-transformers folder; it is left alone"),
        ("--objective query_bert --set query_bert.light=[1]", "found the augmenter 1, expected a"),
    ],
)
def test_what_cannot_be_done_is_refused_before_the_work(
    tmp_path: Path,
    documents: str,
    arguments: str,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    bert_teacher(layers=1, width=64).save("start")
    shape = ["--init", "start" if "query_bert" in arguments else "nano"]
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InvalidInputError, match=message):
        command("--documents", documents, *shape, "--output", "model", *arguments.split())
    assert sorted(tmp_path.rglob("*")) == before
    assert not tmp_path.with_name(f"{tmp_path.name}.work").exists()


@pytest.mark.parametrize("option", ["--max-length 2", "--held-out -4", "--max-length x"])
def test_integers_out_of_range_are_a_usage_error(
    documents: str, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name, number = option.split()
    with pytest.raises(SystemExit):
        command("--documents", documents, "--output", "model", name, number)
    said = f'argument {name}: found "{number}", expected a whole number from'
    assert said in capsys.readouterr().err


def test_a_model_may_go_into_the_folder_one_stands_in(
    tmp_path: Path, documents: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bert_teacher(layers=1, width=16).save(tmp_path / "start")
    (tmp_path / "model").mkdir()
    monkeypatch.chdir(tmp_path / "model")
    arguments = ["--init", "../start", "--documents", documents, "--steps", "1"]
    assert command(*arguments, "--batch-size", "4", "--output", ".") == 0
    assert SentenceEncoder.load(tmp_path / "model").dimension == 16
    assert not (tmp_path / "model.work").exists()


@pytest.fixture
def shop(tmp_path: Path) -> str:
    """Sessions that the shop opens, with names that no table has."""
    found = sentences(80)
    lines = [
        {"id": str(i), "turns": [["shop", f"hello {found[2 * i]}"], ["shopper", found[2 * i + 1]]]}
        for i in range(40)
    ]
    path = tmp_path / "sessions.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return str(path)


def test_the_user_of_sessions_may_be_named(
    tmp_path: Path, shop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[Part] = []

    def take(encoder: object, parts: list[Part], *_: object, **__: object) -> None:
        taken.extend(parts)
        raise KeyboardInterrupt

    monkeypatch.setattr("pocketquery.server.pretraining.training_run.pretrain_to_folder", take)
    bert_teacher(layers=1, width=16).save(tmp_path / "start")
    arguments = ["--init", str(tmp_path / "start"), "--sessions", shop]
    for objective in ("auto_mlm", "contrastive"):
        given = [*arguments, "--objective", objective, "--output", str(tmp_path / "model")]
        with pytest.raises(KeyboardInterrupt):
            command(*given, "--set", f"{objective}.user_role=shopper")
        part = taken.pop()
        drawn: Any = part.objective.draw(part.source[0], random.Random(0))
        texts = (drawn.agent, drawn.user) if objective == "auto_mlm" else drawn[1:]
        assert [text.startswith("hello") for text in texts] == [True, False]
        with pytest.raises(
            InvalidInputError, match=r'"buyer".*one of their 2 roles: shop, shopper'
        ):
            command(*given, "--set", f"{objective}.user_role=buyer")


def test_a_pair_with_a_blank_side_is_named_before_query_bert_learns(tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.tsv"
    rows = [f"{text} a\t{text} b" for text in sentences(20)]
    pairs.write_text("\n".join([*rows[:7], "how to reset\t", *rows[7:]]), encoding="utf-8")
    bert_teacher(layers=1, width=64).save(tmp_path / "start")
    arguments = ["--init", str(tmp_path / "start"), "--pairs", str(pairs), "--held-out", "0"]
    arguments += ["--steps", "1", "--batch-size", "21", "--output", str(tmp_path / "model")]
    with pytest.raises(InvalidInputError, match=r'the pair "8" has one text.*\(1 of 21 pairs'):
        command(*arguments, "--objective", "query_bert")
    assert command(*arguments, "--objective", "auto_mlm") == 0  # which learns from a text alone


def test_a_tokenizer_that_is_not_there_is_said_so(tmp_path: Path, documents: str) -> None:
    arguments = ["--documents", documents, "--tokenizer", str(tmp_path / "none")]
    with pytest.raises(UnknownModelError, match="cannot be loaded as a tokenizer"):
        command(*arguments, "--output", str(tmp_path / "model"))


def test_the_help_names_every_objective(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command("--help")
    said = capsys.readouterr().out
    assert all(name in said for name in OBJECTIVES)
    assert "default: 0.0003)" in said


@pytest.mark.slow
def test_a_new_encoder_begins_with_what_occurs_together(tmp_path: Path, documents: str) -> None:
    tables, biases = [], []
    for kind in (["--table", "random"], []):
        folder = tmp_path / f"table{len(kind)}"
        arguments = ["--documents", documents, *kind, "--learning-rate", "1e-9"]
        assert command(*arguments, "--output", str(folder), *SMALL.split()) == 0
        tables.append(SentenceEncoder.load(folder).backbone.get_input_embeddings().weight.detach())
        biases.append(load_file(folder / "mlm_head.safetensors")["bias"])
    assert float(tables[0].norm(dim=1).mean()) < 0.3 < float(tables[1].norm(dim=1).mean())
    assert float(biases[0].abs().max()) < 1e-3
    assert float(biases[1].exp().sum()) == pytest.approx(1, rel=1e-3)


def test_a_model_brings_its_own_table(tmp_path: Path, documents: str) -> None:
    base = str(tmp_path / "base")
    assert command("--documents", documents, "--output", base, *SMALL.split()) == 0
    further = ["--init", base, "--documents", documents, "--table", "cooccurrence", "--steps", "1"]
    with pytest.raises(InvalidInputError, match="--table cooccurrence goes with a preset"):
        command(*further, "--output", str(tmp_path / "after"))
