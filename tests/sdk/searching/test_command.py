from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketquery import sdk
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.searching.where import parse_condition
from tests.shell import Shell

NOTES = {
    "garden/march.md": [
        ("Sowing", "In March we planted tomatoes and beans along the south wall of the garden."),
        ("Water", "The tomatoes need water every evening, and never at noon."),
    ],
    "garden/tools.md": [("", "The rake and the spade are in the shed behind the house.")],
    "bike.md": [
        ("Brakes", "The rear brake of the bicycle squeals; spare parts are in the cellar.")
    ],
}
HOSTILE = "\x1b]0;pwned\x07 the trombone\x9b \u202eplays"


def documents() -> list[sdk.Document]:
    made = []
    for path, passages in NOTES.items():
        for number, (heading, text) in enumerate(passages):
            name = Path(path).stem.title()
            title = f"{name}: {heading}" if heading else name
            metadata = {"path": path, "line": 1 + 4 * number, "title": title, "year": 2023}
            made.append(sdk.Document(f"{path}#{number}", text, metadata))
    made.append(sdk.Document("mail\x1b[2J", HOSTILE, {"title": "\x1b[31mred \u0645\u06cc\u200c"}))
    return made


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("notes") / "index"
    encoder = sdk.load()
    with sdk.create_index(
        folder, space_id=encoder.space_id, dimension=encoder.dimension
    ) as builder:
        texts = documents()
        builder.add(texts, encoder.encode_document([one.text for one in texts]))
    return folder


def test_a_hit_shows_its_file_and_line_and_the_words_around(notes: Path, shell: Shell) -> None:
    shown = shell("search", "--index", notes, "where did I plant tomatoes").out.splitlines()
    assert re.fullmatch(r"garden/march\.md:1  March: Sowing  \d\.\d\d  \+1 more", shown[0])
    assert shown[1] == f"    {NOTES['garden/march.md'][0][1]}"
    every = shell("search", "--index", notes, "tomatoes", "--group-by", "none").out
    assert every.count("garden/march.md:") == 2
    assert " more" not in every


def test_pages_fit_together(notes: Path, shell: Shell) -> None:
    options = ["--index", notes, "the garden", "--min-score", "-1"]
    lines = shell("search", *options).out.splitlines()
    pages = [shell("search", *options, "-n", 1, "--offset", n).out.splitlines() for n in range(4)]
    assert [line for page in pages for line in page] == lines
    shell("search", *options, "--offset", 4, says="nothing found\nthere are fewer than 5 hits")
    shell("search", *options, "--offset", -1, code=2, says="--offset: found")


def test_programs_get_a_line_of_json_a_hit(notes: Path, shell: Shell) -> None:
    hits = [
        json.loads(line)
        for line in shell("search", "--index", notes, "tomatoes", "--json").out.splitlines()
    ]
    with sdk.open_index(notes, encoder=sdk.load()) as index:
        found = index.search("tomatoes", min_score=0.15, group_by="path")
    assert [(hit["id"], hit["score"], hit["cosine"]) for hit in hits] == [
        (hit.id, hit.score, hit.cosine) for hit in found
    ]
    first: dict[str, Any] = hits[0]
    assert first["query"] == "tomatoes"
    assert first["metadata"]["path"] == "garden/march.md"
    assert first["others"] == 1
    text = first["snippet"]["text"]
    assert [text[start:stop] for start, stop in first["snippet"]["marks"]] == ["tomatoes"]
    trombone = json.loads(shell("search", "--index", notes, "trombone", "-n1", "--json").out)
    assert trombone["text"] == HOSTILE  # JSON has it as it is


def test_no_document_speaks_to_the_terminal(notes: Path, shell: Shell) -> None:
    shown = shell("search", "--index", notes, "trombone").out
    assert shown.startswith("mail\ufffd[2J  \ufffd[31mred \u0645\u06cc\u200c  ")
    assert "    \ufffd]0;pwned\ufffd the trombone\ufffd \ufffdplays\n" in shown


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (["xyzzy quux"], ["the best score is -?0.[01]\\d, below 0.15; to see .*: --min-score -1$"]),
        (["tomatoes", "--min-score", "5"], ["--min-score -1, or --mode lexical for those that"]),
        (
            ["tomatoes", "--where", "yaer=2023"],
            ['has the field "yaer" \\(did you mean "year"\\?\\); there are: '],
        ),
        (["tomatoes", "--filter", '{"x.y": 1}'], ['has the field "x.y"; there are: .*path, year']),
        (["tomatoes", "--where", "year=1999"], ["other documents are found without the condition"]),
        (['+"tomatoes beans"'], ['documents without the "phrase" or \\+word were left out']),
        (["xyzzy", "--mode", "lexical"], ["no document has these words; without --mode lexical"]),
        (
            ["tomatoes", "--mode", "lexical", "--min-score", "99"],
            ["best score is [\\d.]+, below 99"],
        ),
    ],
)
def test_nothing_found_is_an_answer(
    notes: Path, arguments: list[str], advice: list[str], shell: Shell
) -> None:
    lines = shell("search", "--index", notes, *arguments).out.splitlines()
    assert lines[0] == "nothing found"
    assert len(lines) == 1 + len(advice)
    for line, pattern in zip(lines[1:], advice, strict=True):
        assert re.search(pattern, line), line
    assert shell("search", "--index", notes, *arguments, "--json").out == ""


def test_a_phrase_that_no_document_has_is_said(notes: Path, shell: Shell) -> None:
    said = "no document has the words in quotes as they stand"
    assert said in shell("search", "--index", notes, '"tomatoes beans"').out.splitlines()[-1]
    assert said not in shell("search", "--index", notes, '"tomatoes" beans').out


def test_the_best_score_is_shown_below_the_limit(notes: Path, shell: Shell) -> None:
    for query in ("tomatoes", "wall", "brake", "water"):
        hits = shell("search", "--index", notes, query, "--json", "-n", "1").out
        limit = f"{json.loads(hits)['score'] + 1e-6:.6f}"
        said = shell("search", "--index", notes, query, "--min-score", limit).out
        shown = re.search(r"best score is ([\d.]+), below", said)
        assert shown is not None
        assert float(shown[1]) < float(limit)


def test_conditions_that_people_type(notes: Path, shell: Shell) -> None:
    search = ["search", "--index", notes, "house wall water brake", "--min-score", "-1"]
    assert shell(*search, "--where", "path^=garden/", "--where", "title~TOOLS").out.startswith(
        "garden/tools.md:1  Tools  "
    )
    both = ["--where", "year>=2023", "--filter", '{"path": {"$prefix": "bike"}}']
    assert shell(*search, *both).out.startswith("bike.md:1")
    shell(*search, "--where", "garden", code=2, says="expected a field, one of =")
    shell(
        *search,
        "--group-by",
        "pth",
        code=2,
        says='no document has the field "pth" (did you mean "path"?)',
    )
    shell(*search, "--min-score", "nan", code=2, says="--min-score: found")
    for blank in ("", "  "):
        printed = shell("search", "--index", notes, blank, code=2, says="the query is blank")
        assert "warning" not in printed.err
    for wrong in (-1, 0, "x", 1.5):
        shell(*search, "-n", wrong, code=2, says="argument -n/-k: found")


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("tags=garden", {"tags": {"$in": ["garden"]}}),
        ("tags==garden", {"tags": {"$in": ["garden"]}}),
        ("year = 2024", {"year": {"$in": ["2024", 2024]}}),
        ("done!=true", {"done": {"$nin": ["true", True]}}),
        ("draft=False", {"draft": {"$in": ["False", False]}}),
        ("draft!=TRUE", {"draft": {"$nin": ["TRUE", True]}}),
        ("a.b=null", {"a.b": {"$in": ["null", None]}}),
        ("path^=notes/", {"path": {"$prefix": "notes/"}}),
        ("title~a=b", {"title": {"$contains": "a=b"}}),
        ("year>=2020", {"$or": [{"year": {"$gte": "2020"}}, {"year": {"$gte": 2020}}]}),
        ("date<2024-05", {"$or": [{"date": {"$lt": "2024-05"}}]}),
        ('name="x"', {"name": {"$in": ['"x"']}}),
        ("a=", {"a": {"$in": [""]}}),
    ],
)
def test_a_condition_is_a_filter(text: str, condition: dict[str, Any]) -> None:
    assert parse_condition(text) == condition


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from("ab=!<>^~ .1Ne-\n{["), max_size=8))
def test_any_condition_is_a_filter_or_our_error(text: str) -> None:
    try:
        condition = parse_condition(text)
    except InvalidInputError:
        return
    from pocketquery.sdk.results.filters import compile_filter

    compile_filter(condition)


def test_each_line_of_stdin_is_a_query(notes: Path) -> None:
    command = [sys.executable, "-m", "pocketquery.sdk", "search", "--index", str(notes), "-n1"]
    for more in ([], ["-"]):
        done = subprocess.run(
            [*command, *more], input="tomatoes\n\nbrake\n", capture_output=True, text=True
        )
        assert re.fullmatch(
            "# tomatoes\ngarden/march.md:.*\n.*\n\n# brake\nbike.md:.*\n.*\n", done.stdout
        ), done


def on_a_terminal(notes: Path, columns: int, query: str, **environment: str) -> str:
    """What a terminal of that width is sent."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    kept = {
        name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS")
    }
    subprocess.run(
        [sys.executable, "-m", "pocketquery.sdk", "search", "--index", str(notes), query],
        stdout=follower,
        check=True,
        env={**kept, "TERM": "xterm", "PYTHONIOENCODING": "utf-8", **environment},
    )
    os.close(follower)
    sent = b""
    while True:
        try:
            piece = os.read(leader, 1 << 16)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        sent += piece
    os.close(leader)
    return sent.decode().replace("\r\n", "\n")


def test_a_terminal_gets_colours_and_lines_that_fit(notes: Path) -> None:
    shown = on_a_terminal(notes, 50, "planted tomatoes")
    assert "\x1b[35mgarden/march.md\x1b[0m\x1b[32m:1\x1b[0m" in shown
    assert "we \x1b[1;31mplanted\x1b[0m \x1b[1;31mtomatoes\x1b[0m" in shown.replace("\n    ", " ")
    bare = re.sub(r"\x1b\[[\d;]*m", "", shown)
    assert "\x1b" not in bare
    assert max(map(len, bare.splitlines())) <= 50
    for name, value in (("NO_COLOR", "1"), ("TERM", "dumb")):
        assert on_a_terminal(notes, 50, "planted tomatoes", **{name: value}) == bare
    assert on_a_terminal(notes, 50, "planted tomatoes", NO_COLOR="") == shown
