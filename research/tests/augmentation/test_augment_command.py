from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from pocketquery.sdk.errors import InvalidInputError, PocketQueryError
from pocketquery_research.augmentation.augment_command import augment
from pocketquery_research.augmentation.rules.synonyms import read_synonyms
from pocketquery_research.augmentation.variant_cache import VariantCache
from research.tests.augmentation.small_models import SENTENCES, backwards


def run(*arguments: str | Path) -> int:
    parser = argparse.ArgumentParser()
    augment(parser.add_subparsers())
    options = parser.parse_args(["augment", *map(str, arguments)])
    code: int = options.run(options)
    return code


@pytest.fixture
def queries(tmp_path: Path) -> Path:
    path = tmp_path / "queries.jsonl"
    entries = [{"id": str(number), "text": text} for number, text in enumerate(SENTENCES)]
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")
    return path


def printed(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_a_cache_is_filled_and_a_heavy_one_on_top(
    queries: Path, models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cache, model = tmp_path / "views.sqlite", str(models / "reverse")
    choice = json.dumps({"name": "bart", "model": model, "beams": 1})
    for made, present in ((4, 0), (0, 4)):
        assert run("--queries", queries, "--augmenter", choice, "--output", cache, "--json") == 0
        report = printed(capsys)
        assert (report["texts"], report["made"], report["present"]) == (4, made, present)
    after = ("--augmenter", "shuffle", "--after", "bart", "--variants", "2")
    assert run("--queries", queries, *after, "--output", cache, "--seed", "1") == 0
    shown = capsys.readouterr().out
    assert "(shuffle, heavy)" in shown
    assert "16 made, 0 were there" in shown
    with VariantCache(cache, read_only=True) as filled:
        bart, shuffle = (filled.one_named(name).identity for name in ("bart", "shuffle"))
        for text in SENTENCES:
            assert filled.variants(text, bart) == {0: backwards(text)}
            assert len(filled.variants(backwards(text), shuffle)) == 2


def test_an_audit_shows_figures_and_samples(
    queries: Path, models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("--queries", queries, "--augmenter", "shuffle", "--audit")
    assert run(*asked, "--teacher", models / "teacher") == 0
    shown = capsys.readouterr().out
    assert "texts          4" in shown
    assert "unchanged      0.0%" in shown
    assert "token overlap  1.000" in shown
    assert shown.count("\n- ") == 4
    assert "cosine" in shown
    assert run(*asked, "--json", "--limit", "2") == 0
    report = printed(capsys)
    assert (report["texts"], len(report["samples"]), report["cosines"]) == (2, 2, [])


def test_blank_queries_are_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "queries.tsv"
    path.write_text("1\tthe old castle\n2\t\n3\tgeology of rock\n", encoding="utf-8")
    assert run("--queries", path, "--augmenter", "shuffle", "--audit", "--json") == 0
    assert printed(capsys)["texts"] == 2


def test_a_lexicon_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "queries.tsv"
    words = [f"w{chr(97 + n)}{chr(97 + m)}" for n in range(20) for m in range(20)]
    rows = [" ".join(words[4 * (n % 100) :][:4]) for n in range(6000)]  # four that go together
    path.write_text("id\ttext\n" + "".join(f"{n}\t{row}\n" for n, row in enumerate(rows)))
    assert run("--queries", path, "--lexicon", tmp_path / "words.tsv", "--json") == 0
    report = printed(capsys)
    assert len(read_synonyms(tmp_path / "words.tsv")) == report["words"] > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "found none of them; expected one of --output, --audit, --lexicon"),
        (("--audit", "--output", "x"), "found --output and --audit"),
        (("--audit",), "--audit without --augmenter"),
        (("--audit", "--augmenter", "no"), "found the augmenter 'no', expected one of back_trans"),
        (("--audit", "--augmenter", '{"name'), "which is not JSON"),
        (("--audit", "--augmenter", '{"name": ["typo"]}'), r"found the augmenter \['typo'\]"),
        (("--audit", "--augmenter", '{"name": "t5", "model": "absent"}'), "no model folder"),
    ],
)
def test_what_cannot_be_done_is_said(
    queries: Path, arguments: tuple[str, ...], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        run("--queries", queries, *arguments)


@pytest.mark.parametrize(("option", "least"), [("--seed", 0), ("--limit", 1)])
def test_integers_out_of_range_are_a_usage_error(
    queries: Path, option: str, least: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        run("--queries", queries, "--augmenter", "typo", "--audit", option, "-1")
    said = f'argument {option}: found "-1", expected a whole number from {least}'
    assert said in capsys.readouterr().err


def test_an_absent_file_or_source_is_said(queries: Path, tmp_path: Path) -> None:
    with pytest.raises(PocketQueryError, match="absent"):
        run("--queries", tmp_path / "absent", "--augmenter", "shuffle", "--audit")
    with pytest.raises(InvalidInputError, match="no variants by 'bart'"):
        run(
            *("--queries", queries, "--augmenter", "shuffle", "--after", "bart"),
            *("--output", tmp_path / "views.sqlite"),
        )


def test_help_is_for_newcomers(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run("--help")
    shown = capsys.readouterr().out
    assert "examples:" in shown
    assert "--after pegasus" in shown
