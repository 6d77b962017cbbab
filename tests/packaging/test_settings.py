"""Every setting of every package and every option of every command, by one table."""

from __future__ import annotations

import argparse
import importlib
import math
from collections.abc import Iterator
from typing import Any

import pytest

from pocketquery.client.adaptation.adaptation import AdaptationConfig
from pocketquery.distill.settings import StudentAdaptationConfig, StudentConfig, TrainingConfig
from pocketquery.export.settings import GateThresholds, GraphOptions
from pocketquery.sdk.cli import whole_parser
from pocketquery.sdk.commands import Parsed
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.settings.declaration import Settings, declared, from_json
from pocketquery.server.corpus.mining.lcs_pairs import LcsConfig
from pocketquery.server.pretraining.config import PretrainingConfig
from tests.packaging.test_layout import FOLDERS, module_name, modules


def settings_classes() -> list[type[Settings]]:
    """Every class of settings in the packages."""
    classes: dict[str, type[Settings]] = {}
    for folder in FOLDERS:
        for file in modules(folder):
            if "(Settings)" in file.read_text(encoding="utf-8"):
                module = importlib.import_module(module_name(file))
                for one in vars(module).values():
                    if isinstance(one, type) and issubclass(one, Settings) and one is not Settings:
                        classes[f"{one.__module__}.{one.__name__}"] = one
    return list(classes.values())


def parsers() -> Iterator[argparse.ArgumentParser]:
    waiting = [whole_parser()]
    while waiting:
        parser = waiting.pop()
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                waiting += action.choices.values()
        yield parser


class Odd:
    """Of no setting's type."""

    def __repr__(self) -> str:
        return "odd"


def test_every_rule_refuses_what_is_of_no_type_and_never_raises() -> None:
    classes = settings_classes()
    assert len(classes) > 3
    for cls in classes:
        for one in declared(cls):
            for odd in (Odd(), b"\0", [Odd()]):
                assert one.rule is None or not one.rule.holds(odd), f"{cls.__name__}.{one.name}"


@pytest.mark.parametrize(
    ("cls", "given", "message"),
    [
        (TrainingConfig, {"steps": 0}, "steps is 0, expected a whole number from 1"),
        (TrainingConfig, {"typo_share": 1.5}, "typo_share is 1.5, expected a number from 0 to 1"),
        (TrainingConfig, {"learning_rate": 0.0}, "learning_rate is 0.0, expected a number above 0"),
        (TrainingConfig, {"seed": -1}, "seed is -1, expected a whole number from 0"),
        (TrainingConfig, {"cosine_weight": math.nan}, "cosine_weight is nan"),
        (StudentConfig, {"max_length": 3}, "max_length is 3, expected a whole number from 4"),
        (StudentAdaptationConfig, {"ranked_by": "words"}, "ranked_by is 'words', expected one of"),
        (StudentAdaptationConfig, {"stretches": 10**8}, "stretches is 100000000"),
        (AdaptationConfig, {"candidates": 1}, "candidates is 1, expected a whole number from 2"),
        (PretrainingConfig, {"token_budget": -1}, "token_budget is -1"),
        (PretrainingConfig, {"schedule": "cosine"}, "schedule is 'cosine', expected one of linear"),
        (GraphOptions, {"opset": 16}, "opset is 16, expected a whole number from 17"),
        (GraphOptions, {"adapter_train": "down"}, "adapter_train is 'down', expected one of both"),
        (GateThresholds, {"overlap": 1.5}, "overlap is 1.5, expected a number from 0 to 1"),
        (LcsConfig, {"max_gap": 0}, "max_gap is 0, expected a whole number from 1"),
    ],
)
def test_a_value_out_of_range_is_named(
    cls: type[Settings], given: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        cls(**given)


def test_every_class_of_settings_refuses_an_unknown_name() -> None:
    for cls in settings_classes():
        with pytest.raises(InvalidInputError, match='has no setting "no-such-setting"'):
            from_json(cls, {"no-such-setting": 1}, "settings.toml")


def test_every_number_on_a_command_line_is_checked(capsys: pytest.CaptureFixture[str]) -> None:
    checked = 0
    for parser in parsers():
        for action in parser._actions:
            rule = action.type.rule if isinstance(action.type, Parsed) else None
            if rule is None or not action.option_strings:
                continue
            for value in ("x", "-1e30", "1e30", "nan", "0.5", "-1"):
                try:
                    wrong = not rule.holds(action.type.parse(value))  # type: ignore[union-attr]
                except ValueError:
                    wrong = True
                if not wrong:
                    continue
                with pytest.raises(SystemExit):
                    parser.parse_args([f"{action.option_strings[0]}={value}"])
                problem = capsys.readouterr().err.splitlines()[-1]
                names = "/".join(action.option_strings)
                assert f'{names}: found "{value}", expected {rule.expected}' in problem, parser.prog
                checked += 1
    assert checked > 50


def test_every_option_says_what_it_is_and_its_default() -> None:
    for parser in parsers():
        for action in parser._actions:
            if isinstance(action.type, Parsed):
                assert action.help, f"{parser.prog} {action.option_strings}"
                if action.default is not None:
                    assert "default" in action.help, f"{parser.prog} {action.option_strings}"
