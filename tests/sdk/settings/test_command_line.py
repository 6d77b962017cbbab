from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Annotated, Literal

import pytest

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.settings.command_line import add_options, read_options
from pocketquery.sdk.settings.common import integers
from pocketquery.sdk.settings.declaration import Option, Part, Settings
from pocketquery.sdk.validation import number, whole


@dataclass(frozen=True)
class Training(Settings):
    steps: Annotated[int, whole(), "optimiser steps"] = 1000
    typo_share: Annotated[float, number(0, 1), "share that is mistyped, at most 100 %"] = 0.0
    seed: int = 0


@dataclass(frozen=True)
class Shape(Settings):
    layers: Annotated[tuple[int, ...] | None, "which", Option("0,2", parse=integers)] = None
    width: Annotated[int, whole(32), "of the vectors"] = 384


@dataclass(frozen=True, kw_only=True)
class Command(Settings):
    query: Annotated[str, "what to look for", Option(positional=True)]
    texts: Annotated[tuple[str, ...], "files", Option("PATH")] = ()
    set: Annotated[tuple[str, ...], "may be repeated", Option("A=B", repeated=True)] = ()
    step: Annotated[str | None, "with a step", Option(const="byol")] = None
    json: Annotated[bool, "print JSON"] = False
    robust: Annotated[bool, "leave out what is odd"] = True
    output: Annotated[str | None, "files", Option("FOLDER", either="where")]
    to: Annotated[str | None, "a database", Option(either="where")]
    secret: Annotated[int, Option(hidden=True)] = 7
    shape: Annotated[Shape | None, Part("layers", "width")] = None
    training: Annotated[Training, Part("steps", typo_share="typos"), "training"] = Training(5)
    mode: Literal["dense", "lexical"] = "dense"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mode == "lexical" and self.json:
            raise InvalidInputError("--json is given with --mode lexical; leave one out")


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="command")
    add_options(made, Command)
    return made


def read(*words: str) -> Command:
    return read_options(Command, parser().parse_args(list(words)))


def test_options_become_the_settings() -> None:
    plain = read("sugar", "--to", "db")
    assert plain == Command(query="sugar", output=None, to="db")
    assert plain.training.steps == 5
    full = read(
        *("sugar", "--texts", "a", "b", "--set", "x=1", "--set", "y=2", "--step", "--json"),
        *("--no-robust", "--output", "o", "--layers", "0,2", "--typos", "0.5", "--steps", "9"),
    )
    assert (full.texts, full.set, full.step) == (("a", "b"), ("x=1", "y=2"), "byol")
    assert (full.json, full.robust, full.output, full.to) == (True, False, "o", None)
    assert full.shape == Shape(layers=(0, 2))
    assert full.training == Training(9, 0.5)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--steps", "0"], 'argument --steps: found "0", expected a whole number from 1'),
        (["--steps", "x"], 'argument --steps: found "x", expected a whole number from 1'),
        (["--typos", "2"], 'argument --typos: found "2", expected a number from 0 to 1'),
        (["--layers", "one"], 'argument --layers: found "one", expected numbers such as 0,2,5'),
        (["--mode", "both"], "argument --mode: invalid choice: 'both'"),
        (["--output", "o"], "argument --output: not allowed with argument --to"),
        (["--secret", "1"], "unrecognized arguments: --secret"),
    ],
)
def test_what_is_wrong_is_a_usage_error(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        read("sugar", "--to", "db", *words)
    assert message in capsys.readouterr().err


def test_settings_that_do_not_go_together_are_an_error() -> None:
    with pytest.raises(InvalidInputError, match="leave one out"):
        read("sugar", "--to", "db", "--mode", "lexical", "--json")


def test_one_of_two_is_required(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        read("sugar")
    assert "one of the arguments --output --to is required" in capsys.readouterr().err


def test_help_has_ranges_and_defaults() -> None:
    shown = " ".join(parser().format_help().split())
    assert "--steps N optimiser steps (default: 5)" in shown
    assert "--typos X share that is mistyped, at most 100 % (from 0 to 1; default: 0)" in shown
    assert "--width N of the vectors (from 32; default: 384)" in shown
    assert "--no-robust not: leave out what is odd" in shown
    assert "training: --steps" in shown
