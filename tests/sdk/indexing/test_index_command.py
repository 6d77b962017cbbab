"""``pocketquery index`` of a folder, from the shell: updates, and following a folder."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pocketquery.sdk.index.index import open_index
from pocketquery.sdk.index.updates import record_source
from tests.shell import Shell

WATCH_ENDS = [signal.SIGTERM, signal.SIGINT]


@pytest.fixture
def notes(tmp_path: Path, tiny_bundle: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("POCKETQUERY_BUNDLE", str(tiny_bundle))
    monkeypatch.delenv("POCKETQUERY_INDEX", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "sea.md").write_text("# Sea\n\nthe sea is deep\n")
    (folder / "land.md").write_text("# Land\n\nthe land is wide\n\n## Hills\n\nhigh\n")
    return folder


def test_an_update_needs_no_options(notes: Path, shell: Shell) -> None:
    shell("index", "--update", code=2, says="pocketquery index FOLDER --update")
    built = shell("index", str(notes), "--exclude", "drafts/", says="2 documents, 4 passages")
    assert "passages a second" in built.out
    shell("index", "--update", says="no change; 0 passages encoded")
    (notes / "sea.md").write_text("# Sea\n\nthe sea is cold\n")
    (notes / "new.txt").write_text("a new note")
    shell("index", str(notes), "--update", says="1 added, 1 changed; 2 passages encoded")
    (notes / "new.txt").unlink()
    report = json.loads(shell("index", "--update", "--json").out)
    assert report["changes"] == {"added": 0, "changed": 0, "moved": 0, "removed": 1}
    assert (report["documents"], report["passages"], report["encoded"]) == (2, 4, 0)


def test_the_language_is_found_or_given(notes: Path, shell: Shell) -> None:
    (notes / "sea.md").write_text(
        "Das Haus steht am Fluss und die Brücke ist nicht sehr alt.\n" * 9
    )
    shell("index", str(notes), says="words      stemmed as german")
    shell("index", "--update", "--language", "english", code=2, says="with language german, not")
    shell("index", str(notes), "--language", "none", says="words      kept whole")
    shell("index", str(notes), "--language", "klingon", code=2, says="language is 'klingon'")


def test_an_update_of_nothing_builds(notes: Path, shell: Shell) -> None:
    shell("index", str(notes), "--update", says="2 documents, 4 passages")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--update", "--corpus", "a"], "--update is given with --corpus"),
        (["--watch", "--encoded", "a"], "--watch is given with --encoded"),
        (["--update", "--signing-key", "a"], "--update is given with --signing-key"),
        (["--update", "--include", "*.txt"], "made with include none, not with *.txt"),
        (["--update", "--bundle", "default"], "with the built-in encoder, not with default"),
        (["--update", "--passages"], "--passages is given without --corpus"),
        (["--update", "--output", "elsewhere"], "elsewhere to update; name the folder"),
    ],
)
def test_what_does_not_go_with_an_update(
    notes: Path, shell: Shell, arguments: list[str], message: str
) -> None:
    shell("index", str(notes))
    shell("index", *arguments, code=2, says=message)


@pytest.mark.parametrize("option", ["--update", "--watch"])
def test_an_index_from_elsewhere_does_not_choose_the_folder(
    notes: Path,
    tmp_path: Path,
    shell: Shell,
    monkeypatch: pytest.MonkeyPatch,
    option: str,
) -> None:
    if option == "--watch":
        pytest.importorskip("watchfiles")
    own, received = tmp_path / "pocketquery" / "index", tmp_path / "received"
    private = tmp_path / "private"
    private.mkdir()
    (private / "key.txt").write_text("a secret key")
    shell("index", str(private), "--output", str(received))
    (private / "more.txt").write_text("another secret")
    named = f"pocketquery index {private} {option} --output {received}"
    shell("index", option, "--output", str(received), code=2, says=named)
    monkeypatch.setenv("POCKETQUERY_INDEX", str(received))
    (tmp_path / "received.source").write_text(f"{private}\n")  # it came beside the index
    shell("index", option, code=2, says=f"pocketquery index {private} {option}")
    monkeypatch.delenv("POCKETQUERY_INDEX")
    shell("index", str(notes))
    shutil.rmtree(own)
    received.rename(own)
    shell("index", option, code=2, says=f"of the folder {private}, not of {notes}")
    assert json.loads(shell("search", "secret", "--json").out)["metadata"]["path"] == "key.txt"


def test_an_index_does_not_choose_a_model(
    notes: Path, tiny_bundle: Path, tmp_path: Path, shell: Shell
) -> None:
    shell("index", str(notes), "--bundle", str(tiny_bundle))
    shell("index", "--update", says="no change")
    (notes / "new.md").write_text("something new")
    shell("index", "--update", code=2, says=f"name it yourself: --bundle {tiny_bundle}")
    shell("index", "--update", "--bundle", str(tiny_bundle), says="1 added")
    with open_index(tmp_path / "pocketquery" / "index", writable=True) as index:
        source = index.source
        assert source is not None
        with index.writing() as connection:
            record_source(connection, replace(source, teacher="someone/model"))
    (notes / "new.md").write_text("something newer")
    shell("index", "--update", code=2, says="name it yourself: --teacher someone/model")


def test_a_missing_package_is_named_before_the_work(
    notes: Path, tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    shell("index", str(notes), "--watch", code=2, says="pocketquery[files]")
    assert not (tmp_path / "pocketquery" / "index").exists()


@pytest.mark.slow  # a process of its own that starts, and waits for changes
@pytest.mark.parametrize("end", WATCH_ENDS)
def test_a_watched_folder_is_followed_until_a_signal(
    notes: Path, tmp_path: Path, end: signal.Signals
) -> None:
    # A shell lets what runs in its background ignore SIGINT; the tests may.
    program = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler);"
        "from pocketquery.sdk.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", program, "index", str(notes), "--watch"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None

        def wait_for(text: str) -> None:
            for line in process.stdout or ():
                if text in line:
                    return
            raise AssertionError(f"{text!r} did not come")

        wait_for("time")  # the folder may not be watched yet
        (notes / "more.md").write_text("# More\n\nabout whales\n")
        wait_for("1 added; 2 passages encoded")
        (notes / "more.md").rename(notes / "moved.md")
        wait_for("1 moved")
        away = notes.with_name("away")
        (notes / "moved.md").rename(away)
        (notes / "sea.md").unlink()
        (notes / "land.md").unlink()
        assert process.stderr is not None
        wait_for_error = iter(process.stderr)
        assert any("pocketquery: error: " in line for line in wait_for_error)
        away.rename(notes / "moved.md")
        wait_for("2 removed")
        process.send_signal(end)
        assert process.wait() == 0
        assert process.stderr.read().endswith("stopped watching\n")
    with open_index(tmp_path / "pocketquery" / "index") as index:
        assert index.search("whales", 1, mode="lexical")[0].metadata["path"] == "moved.md"
