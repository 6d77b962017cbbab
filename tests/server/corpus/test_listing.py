"""Which files a corpus consists of."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pocketquery.server.corpus.listing import list_shards

pytest.importorskip("fsspec", reason="needs fsspec (extra shards)")


def test_a_folder_is_read_with_all_below_it_and_the_rest_is_named(tmp_path: Path) -> None:
    corpus = tmp_path / "c"
    shards = ["A.JSONL", "a.ndjson", "part=2/b.Parquet", "part=2/x/c.jsonl.GZ", "z.jsonl.xz"]
    ending = "expected one of .jsonl,"
    hidden = "begins with a dot or an underscore"
    inside = [".git/d.jsonl", "part=2/_temporary/0/e.jsonl"]
    others = {
        "_SUCCESS": hidden, ".a.jsonl.crc": hidden,
        "part=2/notes.txt": ending, "b.jsonl.zst": ending, "b.jsonl.bz2": ending, "c.csv": ending,
        "x.parquet.tmp": ending,
    }  # fmt: skip
    for name in (*shards, *others, *inside):
        (corpus / name).parent.mkdir(parents=True, exist_ok=True)
        (corpus / name).touch()
    others |= {".git": hidden, "part=2/_temporary": hidden}
    found = dict[str, str]()
    assert list_shards([corpus], found.__setitem__) == [str(corpus / one) for one in shards]
    assert {str(Path(one).relative_to(corpus)) for one in found} == set(others)
    for name, why in others.items():
        assert why in found[str(corpus / name)], name
    of_urls = dict[str, str]()
    urls = list_shards([f"file://{corpus}"], of_urls.__setitem__)
    assert urls == [f"file://{corpus / one}" for one in shards]
    assert set(of_urls) == set(found)
    (corpus / "linked").symlink_to(corpus / "part=2")
    (corpus / "gone.jsonl").symlink_to(corpus / "nothing")
    os.mkfifo(corpus / "pipe.jsonl")
    assert list_shards([corpus], found.__setitem__) == [str(corpus / one) for one in shards]
    assert "link to a folder" in found[str(corpus / "linked")]
    assert found[str(corpus / "gone.jsonl")] == found[str(corpus / "pipe.jsonl")] == "no plain file"


def test_a_pattern_means_the_same_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "[2024]"  # which is no pattern
    names = [here / name / "0.jsonl" for name in ("a", "a/b", "a/b/c")]
    for one in names:
        one.parent.mkdir(parents=True)
        one.touch()
    monkeypatch.chdir(here)
    assert list_shards(["a/*.jsonl"]) == [str(names[0])]
    assert list_shards(["a/**/*.jsonl"]) == [str(one) for one in names]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "[2024]").rename(tmp_path / "2024")
    for pattern in ("2024/**/0.jsonl", "2024/**/**/0.jsonl"):
        urls = list_shards([f"file://{tmp_path}/{pattern}"])
        assert [f"file://{one}" for one in list_shards([pattern])] == urls
        assert len(urls) == 3
