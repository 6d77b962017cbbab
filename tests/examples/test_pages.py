"""Blocks of the documentation run and print what the page says, or say why they do not.

README and tutorial run with every test; all other pages run with the slow ones, and otherwise only
parse.
"""

from __future__ import annotations

import json
import shutil
import tomllib
from pathlib import Path

import pytest

from tests.examples import command_lines
from tests.examples.page_files import PREPARATIONS, run_page
from tests.examples.pages import PAGES, ROOT, Block, all_blocks, blocks, name_of, run

FAST = ("README.md", "tutorial.md")
# test_integrations.py runs that page's: each needs another library.
RUNNING = [
    pytest.param(name, marks=() if name in FAST else pytest.mark.slow)
    for name in map(name_of, PAGES)
    if name != "integrations.md" and blocks(name)
]
OTHER_LANGUAGES = {
    "text",
    "json",
    "toml",
    "sql",
    "kotlin",
    "swift",
    "csharp",
    "c",
    "js",
    "jsx",
    "ts",
}


@pytest.mark.timeout(1800)  # a page has many processes
@pytest.mark.parametrize("name", RUNNING)
def test_every_block_prints_what_the_page_says(name: str, tmp_path: Path) -> None:
    for program in ("bash", "openssl"):
        if shutil.which(program) is None:
            pytest.skip(f"no {program} here")
    run_page(name, tmp_path)


def test_what_is_prepared_is_of_a_block_that_runs() -> None:
    for name, words, _ in PREPARATIONS:
        assert any(words in block.code for block in blocks(name, slow=True)), (name, words)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_parses_and_names_what_there_is(page: Path) -> None:
    variables: dict[str, str] = {}
    problems = []
    for block in all_blocks(page):
        where = f"{block.heading}: {block.code.strip().splitlines()[0]}"
        if block.language not in ("python", "sh"):
            assert block.language in OTHER_LANGUAGES, f"{where}: a block of what?"
        if block.language == "sh":
            for words in command_lines.commands(block.code, variables):
                problems += [problem] if (problem := command_lines.problem_of(words)) else []
            for program in command_lines.python_programs(block.code):
                problems += command_lines.problems_of_python(program)
        elif block.language == "python":
            problems += command_lines.problems_of_python(block.code)
        elif block.language == "toml":
            tomllib.loads(block.code)
        elif block.language == "json" and "…" not in block.code:
            json.loads(block.code)
    assert not problems


@pytest.mark.parametrize(
    "line",
    [
        "pocketquery search --index index --no-such-option x query",
        "pocketquery no-such-command",
        "cd sdk && python benchmarks/no_such_file.py",
        "python benchmarks/tokenizer.py --no-such-option",
        'pip install "pocketquery[no-such]"',
        'pip install "./packages/pocketquery-stores[no-such]"',
        "make no-such-target",
        "curl https://example.org",
    ],
)
def test_a_line_that_would_not_parse_is_noticed(line: str) -> None:
    words = list(command_lines.commands(line, {}))
    assert any(command_lines.problem_of(found) for found in words)


def test_names_that_are_not_there_are_noticed() -> None:
    code = "from pocketquery import sdk\nsdk.load(no_such=1)\nsdk.no_such()\n"
    assert len(command_lines.problems_of_python(code)) == 2
    assert command_lines.problems_of_python("from pocketquery.distill import no_such")


def test_a_block_that_fails_is_noticed_and_a_refusal_is_an_answer(tmp_path: Path) -> None:
    refusal = "echo refused: nothing was written"
    assert run(Block("", "sh", f"{refusal}\nfalse\nno-such-program", None), tmp_path)
    for code in ("false", f"{refusal}\nexit 2", f"{refusal}\necho more\nfalse"):
        with pytest.raises(AssertionError):
            run(Block("", "sh", code, None), tmp_path)


def test_programs_in_here_documents_are_read() -> None:
    code = "python - <<'END' | tail -1\nfrom pocketquery import no_such\nEND\ncat > f <<E\nx y\nE\n"
    assert list(command_lines.commands(code, {})) == [["python", "-"], ["tail", "-1"], ["cat"]]
    (program,) = command_lines.python_programs(code)
    assert command_lines.problems_of_python(program)


def test_variables_comments_and_quotes_are_read_as_a_shell_does() -> None:
    code = 'A="--x 1"\npocketquery a $A "b # c" > f  # comment\npocketquery d \\\n  e && f ...\n'
    assert list(command_lines.commands(code, {})) == [
        ["pocketquery", "a", "--x", "1", "b # c"],
        ["pocketquery", "d", "e"],
        ["f"],
    ]
