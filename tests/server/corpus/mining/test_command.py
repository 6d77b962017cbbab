from __future__ import annotations

import json
from pathlib import Path

import pytest

from pocketquery.sdk.errors import CorpusError, InvalidInputError, PocketQueryError
from pocketquery.server.corpus import TextStore
from pocketquery.server.corpus.mining.command import mine
from tests.commands import run_command
from tests.tiny_models import bert_teacher, sentences


def run(*arguments: str | Path) -> int:
    return run_command(mine, "mine", *arguments)


def groups(path: Path) -> list[tuple[str, ...]]:
    store = TextStore.open(path)
    return [store[row].texts for row in range(len(store))]


@pytest.fixture
def articles(tmp_path: Path) -> Path:
    path = tmp_path / "articles.jsonl"
    entries = [
        {
            "id": f"a{number}",
            "title": f"Government of {place}",
            "sentences": [f"The government of {place} met.", f"It is the government {number}."],
        }
        for number, place in enumerate(("Norway", "Ghana", "Peru", "Laos"))
    ]
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")
    return path


def test_a_store_of_raw_files(
    articles: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = tmp_path / "more.txt"
    more.write_text("One sentence. Another.\n\nA second document.\n", encoding="utf-8")
    assert (
        run("store", "--documents", articles, more, "--lang", "en", "--output", tmp_path / "s") == 0
    )
    store = TextStore.open(tmp_path / "s")
    assert [len(store[row].texts) for row in range(len(store))] == [3, 3, 3, 3, 2, 1]
    assert store.languages == ("en",)
    assert "6 documents, 15 texts" in capsys.readouterr().out


def test_a_store_of_a_store_in_random_order_and_without_repetitions(
    articles: Path, tmp_path: Path
) -> None:
    run("store", "--documents", articles, articles, "--output", tmp_path / "twice")
    twice = groups(tmp_path / "twice")
    run("store", "--documents", tmp_path / "twice", "--shuffle", "--output", tmp_path / "mixed")
    run("store", "--documents", tmp_path / "twice", "--unique", "--output", tmp_path / "once")
    assert sorted(groups(tmp_path / "mixed")) == sorted(twice)
    assert groups(tmp_path / "mixed") != twice
    assert sorted(groups(tmp_path / "once")) == sorted(twice[:4])


def test_columns_of_a_table(tmp_path: Path) -> None:
    table = tmp_path / "t.tsv"
    table.write_text("q\ta\tkind\nwhat\tthat\t1\nwho\tshe\t0\n", encoding="utf-8")
    run(
        "store",
        "--pairs",
        table,
        "--columns",
        "q,a",
        "--where",
        "kind=1",
        "--output",
        tmp_path / "p",
    )
    assert groups(tmp_path / "p") == [("what", "that")]


def test_pairs_of_documents(
    articles: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("pairs", "--documents", articles, "--output", tmp_path / "pairs", "--json")
    figures = json.loads(capsys.readouterr().out)
    found = groups(tmp_path / "pairs")
    assert figures["groups"] == len(found) == 12
    assert ("Government of Norway", "The government of Norway met.") in found
    run("pairs", "--documents", articles, "--candidates", "title", "--output", tmp_path / "titles")
    titles = groups(tmp_path / "titles")
    assert len(titles) == 8
    assert all(first.startswith("Government of") for first, _ in titles)
    run("pairs", "--documents", articles, "--output", tmp_path / "pairs", "--seed", "1")
    assert groups(tmp_path / "pairs") != found
    assert sorted(groups(tmp_path / "pairs")) == sorted(found)


def test_pairs_without_lcs_and_with_a_higher_bar(articles: Path, tmp_path: Path) -> None:
    high: list[str | Path] = ["pairs", "--documents", articles, "--strict-weight", "90"]
    with pytest.raises(CorpusError, match="no pairs in what was named"):
        run(*high, "--output", tmp_path / "few")
    run(
        *("pairs", "--documents", articles, "--strict-weight", "90", "--no-lcs"),
        *("--output", tmp_path / "all"),
    )
    assert len(groups(tmp_path / "all")) == 12


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    folder = tmp_path / "set"
    folder.mkdir()
    texts = sentences(40)
    corpus = ({"_id": str(n), "title": "", "text": text} for n, text in enumerate(texts))
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, corpus)), encoding="utf-8")
    (folder / "queries.train.tsv").write_text(
        "".join(f"q{n}\t{' '.join(texts[n].split()[:2])}\n" for n in range(5)), encoding="utf-8"
    )
    (folder / "qrels.train.tsv").write_text(
        "".join(f"q{n}\t{n}\t1\n" for n in range(5)), encoding="utf-8"
    )
    return folder


def test_triples_by_bm25_then_by_a_model(collection: Path, tmp_path: Path) -> None:
    bert_teacher().save(tmp_path / "model")
    found = {}
    model = str(tmp_path / "model")
    for name, rankers in (
        ("bm25", []),
        ("model", ["--ranker", model]),
        ("both", ["--ranker", "bm25", "--ranker", model]),
    ):
        output = tmp_path / f"by {name}"
        run("triples", "--dataset", collection, "--depth", "10", *rankers, "--output", output)
        found[name] = groups(output)
        assert len(found[name]) == 5
        for texts, positive in zip(found[name], sentences(5), strict=True):
            assert texts[1] == positive
            assert len(set(texts)) == len(texts) <= 9
            assert set(texts[2:]) <= set(sentences(40))
    assert found["bm25"] != found["model"] != found["both"]


def test_triples_of_files_named_one_by_one_and_of_pairs(collection: Path, tmp_path: Path) -> None:
    files = {"corpus": "corpus.jsonl", "queries": "queries.train.tsv", "qrels": "qrels.train.tsv"}
    named = [part for name, file in files.items() for part in (f"--{name}", collection / file)]
    run("triples", *named, "--negatives", "2", "--output", tmp_path / "t")
    assert [len(texts) for texts in groups(tmp_path / "t")] == [4] * 5
    table = tmp_path / "pairs.tsv"
    table.write_text("".join(f"{a}\t{a} more\n" for a in sentences(30)), encoding="utf-8")
    run("triples", "--pairs", table, "--output", tmp_path / "p")
    assert len(groups(tmp_path / "p")) == 30


def test_a_tokenizer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = tmp_path / "texts.tsv"
    lines.write_text("\n".join(sentences(200)), encoding="utf-8")
    run(
        *("tokenizer", "--queries", lines, "--lang", "en", "--kind", "wordpiece"),
        *("--vocabulary", "200", "--output", tmp_path / "tokenizer", "--json"),
    )
    figures = json.loads(capsys.readouterr().out)
    assert figures["ids"] <= 200
    assert figures["languages"][0]["language"] == "en"
    assert figures["languages"][0]["pieces_per_word"] >= 1
    assert (tmp_path / "tokenizer" / "tokenizer.json").is_file()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("store",), "expected one of --documents"),
        (("store", "--documents", "a", "--pairs", "b"), "found --documents and --pairs"),
        (("pairs", "--documents", "missing.jsonl"), "missing.jsonl"),
        (("triples",), "not clear"),
        (("triples", "--corpus", "x"), "not clear"),
        (("triples", "--dataset", "x", "--pairs", "y"), "not clear"),
        (("triples", "--pairs", "x", "--depth", "2", "--skip", "2"), "a depth beyond the skip"),
        (("triples", "--pairs", "x", "--exclude", "y"), "found --exclude y beside --pairs"),
        (("store", "--pairs", "x", "--columns", "a,b", "--where", "c"), "NAME=VALUE"),
    ],
)
def test_mistakes_are_explained(arguments: tuple[str, ...], expected: str, tmp_path: Path) -> None:
    with pytest.raises(PocketQueryError, match=expected):
        run(*arguments, "--output", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        *(
            ((mode, "--seed", "-1"), 'argument --seed: found "-1", expected a whole number from 0')
            for mode in ("store", "pairs", "triples", "tokenizer")
        ),
        *(
            ((mode, "--memory", "-5"), 'argument --memory: found "-5", expected a whole number')
            for mode in ("store", "pairs")
        ),
        (("pairs", "--max-gap", "-5"), 'argument --max-gap: found "-5", expected a whole number'),
        (("pairs", "--candidates", "some"), "argument --candidates: invalid choice"),
        (("triples", "--depth", "0"), 'argument --depth: found "0", expected a whole number'),
    ],
)
def test_a_value_out_of_range_is_a_usage_error(
    arguments: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        run(*arguments, "--output", tmp_path / "out")
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("more", [(), ("--shuffle",), ("--engine", "local")])
def test_nothing_to_store_leaves_the_store_that_is_there(
    articles: Path, tmp_path: Path, more: tuple[str, ...]
) -> None:
    for mode in ("store", "pairs"):
        output = tmp_path / mode
        run(mode, "--documents", articles, "--output", output)
        before = groups(output)
        nothing = tmp_path / "nothing.jsonl"
        nothing.write_text("\n")
        given = more if mode == "store" or "--shuffle" not in more else ()
        with pytest.raises(CorpusError, match="Nothing was written"):
            run(mode, "--documents", nothing, *given, "--output", output)
        assert groups(output) == before


def test_an_output_that_is_something_else_is_left_alone(articles: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work", encoding="utf-8")
    with pytest.raises(InvalidInputError, match="left alone"):
        run("pairs", "--documents", articles, "--output", tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.txt").is_file()
