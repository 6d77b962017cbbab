"""Mining shard by shard gives what mining at once gives, and goes on where it was killed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_corpus import bytes_of

from pocketquery.sdk.errors import CorpusError, InvalidInputError
from pocketquery.server.corpus.text_store import TextStore
from tests.server.corpus.mining.test_command import run


@pytest.fixture
def articles(tmp_path: Path) -> Path:
    """Three files of articles with sentences that share long strings."""
    folder = tmp_path / "articles"
    folder.mkdir()
    places = ("Norway", "Ghana", "Peru", "Laos", "Chad", "Cuba")
    for shard in range(3):
        entries = [
            {
                "id": str(number),
                "title": f"Government of {place}",
                "sentences": [
                    f"The government of {place} met in {1900 + shard}.",
                    f"It is the government number {number} of {place}, they say.",
                    "Nobody knows why the government met so late in the year.",
                ],
                "lang": "en" if shard else "",
            }
            for number, place in enumerate(places)
        ]
        text = "".join(json.dumps(entry) + "\n" for entry in entries)
        (folder / f"{shard}.jsonl").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize("mode", ["store", "pairs"])
def test_the_bytes_are_those_of_mining_at_once(mode: str, articles: Path, tmp_path: Path) -> None:
    files = sorted(articles.iterdir())
    run(mode, "--documents", *files, "--output", tmp_path / "once")
    run(mode, "--documents", articles, "--engine", "local", "--output", tmp_path / "sharded")
    assert len(TextStore.open(tmp_path / "once")) >= 18
    assert bytes_of(tmp_path / "sharded") == bytes_of(tmp_path / "once")
    assert not [one.name for one in tmp_path.iterdir() if one.name.startswith(".")]


def test_a_shard_that_stays_alone_keeps_its_ids_too(articles: Path, tmp_path: Path) -> None:
    first, bad = articles / "0.jsonl", articles / "1.jsonl"
    bad.write_text("{nonsense\n")
    command = ("store", "--engine", "local", "--output", tmp_path / "out", "--documents", first)
    with pytest.raises(CorpusError, match=r"1\.jsonl, line 1"):
        run(*command, bad)
    run(*command)
    run("store", "--output", tmp_path / "once", "--documents", first)
    assert bytes_of(tmp_path / "out") == bytes_of(tmp_path / "once")


def test_what_was_made_is_kept_and_other_settings_begin_anew(
    articles: Path, tmp_path: Path
) -> None:
    good = (articles / "2.jsonl").read_text()
    (articles / "2.jsonl").write_text("{nonsense\n")
    command = ("pairs", "--documents", articles, "--engine", "local", "--output", tmp_path / "out")
    with pytest.raises(CorpusError, match=r"2\.jsonl, line 1"):
        run(*command)
    parts = tmp_path / ".out.parts"

    # When, and not the inode: that of a deleted file is given again.
    def written() -> dict[str, int]:
        return {one.name: one.stat().st_mtime_ns for one in parts.iterdir()}

    before = written()
    assert sorted(before) == ["part-000000", "part-000001"]
    with pytest.raises(CorpusError):
        run(*command)
    assert written() == before
    with pytest.raises(CorpusError):
        run(*command, "--max-gap", "1")
    assert not before.items() & written().items()
    (articles / "2.jsonl").write_text(good)
    assert run(*command) == 0
    assert not parts.exists()


def test_options_of_an_engine_want_one(articles: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="go with --engine ray"):
        run("store", "--documents", articles, "--workers", "2", "--output", tmp_path / "out")
