"""``pocketquery privacy``: a plan of private rounds, and the officer's page of what ran."""

from __future__ import annotations

import argparse
import json
import math
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pocketquery.sdk.commands import add_action, add_command
from pocketquery.sdk.errors import ArtifactNotFoundError, CorruptArtifactError
from pocketquery.sdk.settings.command_line import add_options, read_options
from pocketquery.sdk.settings.declaration import Option, Settings
from pocketquery.sdk.validation import whole
from pocketquery_privacy import EXPERIMENTAL

if TYPE_CHECKING:
    from pocketquery_privacy.federation import Federation
    from pocketquery_privacy.plan import Plan, Wanted

__all__ = ["ReportOptions", "privacy", "read_federation"]

_EPILOG = f"""\
{EXPERIMENTAL}

examples:
  pocketquery privacy plan --devices 10000 --cohort 1000 --rounds 10 --epsilon 2
  pocketquery privacy plan --devices 5000 --cohort 200 --noise-multiplier 2.4 --adapter small --json
  pocketquery privacy report --federation simulation --devices 10000 --output privacy.html

Epsilon is told with its delta, its season and its adversary: H, a server that follows the protocol
and keeps what it sees; M, one that deviates; R, whoever gets the releases. It never counts on
devices being drawn at random. docs/privacy.md says what all of it means.
"""
_ADVERSARIES = {
    "H": "a server that follows the protocol and keeps what it sees",
    "M": "a server that deviates, where someone else enrols device keys and devices have the "
    "options below",
    "R": "whoever gets the releases",
}


@dataclass(frozen=True, kw_only=True)
class ReportOptions(Settings):
    """What ``pocketquery privacy report`` takes."""

    federation: Annotated[Path, "of the rounds: journal and settings", Option("FOLDER")]
    devices: Annotated[int | None, whole(), "that may take part at all"] = None
    settings: Annotated[
        Path | None,
        "simulation.json or the Flower app's pyproject.toml (default: FOLDER/simulation.json)",
        Option("FILE"),
    ] = None
    attacks: Annotated[
        Path | None,
        "result of benchmarks/privacy_attacks.py (default: docs/results/privacy_attacks.json)",
        Option("FILE"),
    ] = None
    output: Annotated[Path, "the page", Option("FILE")] = Path("privacy.html")


def privacy(subparsers: Any) -> None:
    """Add the sub-command to the shell's parsers."""
    from pocketquery_privacy.plan import Wanted

    parser = add_command(
        subparsers,
        "privacy",
        "What private rounds cost and carry, before they run and after.",
        _EPILOG,
    )
    actions = parser.add_subparsers(metavar="action", required=True)
    for action in (
        _add_action(
            actions,
            "plan",
            "participations, noise, bytes and expected loss of a federation",
            Wanted,
            _plan,
        ),
        _add_action(
            actions,
            "report",
            "the page for a privacy officer, from what has run",
            ReportOptions,
            _report,
        ),
    ):
        action.description = f"{action.description} {EXPERIMENTAL}"


def _add_action(
    actions: Any, name: str, summary: str, options: type[Any], run: Callable[[Any, bool], int]
) -> argparse.ArgumentParser:
    """Add an action of a sub-command that can print JSON; returns its parser.

    Args:
        actions: argparse's, of the sub-command.
        name: of the action.
        summary: its help.
        options: the settings that become its options.
        run: gets one of them, and whether JSON is wanted; returns the exit code.
    """

    def read_and_run(arguments: argparse.Namespace) -> int:
        return run(read_options(options, arguments), arguments.json)

    parser = add_action(actions, name, summary, read_and_run)
    add_options(parser, options)
    return parser


def _plan(wanted: Wanted, as_json: bool) -> int:
    from pocketquery_privacy.plan import plan

    result = plan(wanted)
    if as_json:
        print(json.dumps(result.to_dict()))
        return 0
    print(EXPERIMENTAL, file=sys.stderr)
    print("\n".join(_lines(result)))
    return 0


def _lines(plan: Plan) -> list[str]:
    from pocketquery_privacy.utility import ADAPTERS

    wanted = plan.wanted
    rows = [
        ("participations", f"{plan.participations} of a device in the season, at most; "
         f"the rounds need {plan.share_used:.0%} of what the fleet may"),
        ("noise", f"multiplier {plan.noise_multiplier:g}, added by "
         f"devices ({plan.sigma_steps:.1f} steps of 2^-{plan.step_exponent} each)"),
        *(
            (f"epsilon, {who}", f"{value:.2f} at delta {wanted.delta:g} a season: "
             f"{_ADVERSARIES[who]}")
            for who, value in plan.epsilon.items()
        ),
        ("graph", f"{plan.neighbours} neighbours, threshold {plan.threshold}; no sum of fewer "
         f"than {plan.least_honest} honest devices, even where the server deviates"),
        *(
            ("", f"{float(share):.0%} of the devices collude: too many around one {_chance(p)}")
            for share, p in plan.overrun.items()
        ),
        *(
            ("", f"{float(share):.0%} vanish in the short stages: round skipped {_chance(p)}")
            for share, p in plan.unrecoverable.items()
        ),
        ("bytes", f"{plan.bytes_down:,} down, {plan.bytes_up:,} up, of a device in a round"),
        ("signal : noise", f"{plan.signal_to_noise:.2g} in one round's mean, norm over norm"),
        ("expected loss", _loss(plan)),
        ("", f"({ADAPTERS[wanted.adapter].source})"),
    ]  # fmt: skip
    lines = [
        f"{wanted.rounds} rounds of {wanted.cohort:,} of {wanted.fleet:,} devices, "
        f"{wanted.adapter} adapter"
    ]
    lines += [f"  {name:16} {text}" for name, text in rows]
    lines += [f"  warning          {text}" for text in plan.warnings]
    return [
        *lines,
        "",
        "server:  " + _server_options(plan),
        "devices: " + _device_options(plan),
    ]


def _chance(probability: float) -> str:
    return f"with p <= {probability:.1g}" if probability else "never"


def _loss(plan: Plan) -> str:
    if plan.expected_loss is None:
        return "not known: more noise than was measured"
    return f"{plan.expected_loss:.1f} points of nDCG@10, of {plan.gain:.1f} gained without noise"


def _server_options(plan: Plan) -> str:
    wanted = plan.wanted
    limit = wanted.epsilon or math.ceil(100 * plan.epsilon["R"]) / 100
    values = {
        "clients-per-round": wanted.cohort,
        "over-selection": math.floor(plan.over_selection * 100) / 100,
        "rounds": wanted.rounds,
        "clip-norm": wanted.clip_norm,
        "secure": "on",
        "federation": "NAME",
        "enrolment": "authority.pub.pem",
        "secure-neighbours": wanted.neighbours,
        "secure-largest-group": plan.largest_group,
        "privacy": "devices",
        "noise-multiplier": plan.noise_multiplier,
        "participations": plan.participations,
        "season-rounds": wanted.rounds,
        "epsilon": limit,
        "delta": wanted.delta,
    }
    return " ".join(f"--{name} {value}" for name, value in values.items())


def _device_options(plan: Plan) -> str:
    wanted = plan.wanted
    limit = max(wanted.epsilon or 0.0, math.ceil(100 * plan.ledger_epsilon) / 100)
    return (
        f'secure="required" privacy="devices" participations={plan.participations} '
        f"epsilon={limit} delta={wanted.delta} noise-least={plan.noise_multiplier} "
        f"neighbours={wanted.neighbours} largest-group={plan.largest_group} rest={wanted.rest}"
    )


def _report(options: ReportOptions, as_json: bool) -> int:
    from pocketquery_privacy.page import write_page

    federation = read_federation(options)
    write_page(options.output, federation)
    if as_json:
        print(json.dumps(federation.summary() | {"output": str(options.output)}))
    else:
        print(f"Open {options.output}")
    return 0


def read_federation(options: ReportOptions) -> Federation:
    """What the page is about; nothing in the folder of the rounds changes.

    Raises:
        ArtifactNotFoundError: there is no such folder, settings or figures.
        ArtifactError: the journal cannot be read, or its server runs.
        CorruptArtifactError: settings or figures are none.
        InvalidInputError: fewer devices than have ledgers.
    """
    from pocketquery.server.federation.orchestration.federation import JOURNAL, finished_rounds
    from pocketquery.server.federation.orchestration.journal import Journal
    from pocketquery.server.private.settings import SecureSettings
    from pocketquery_privacy.federation import (
        Federation,
        count_participations,
        read_attacks,
    )

    folder, devices = options.federation, options.devices
    if not folder.is_dir():
        raise ArtifactNotFoundError(f"{folder} is no folder; name the one that the rounds ran in")
    given = _options(options.settings or folder / "simulation.json")
    secure = None if given["secure"] is None else SecureSettings.from_dict(given["secure"])
    rounds = finished_rounds(folder)
    charges = []
    if (folder / JOURNAL).is_file():
        with Journal.open(folder / JOURNAL) as journal:
            charges = journal.charges()
    return Federation(
        options=given,
        secure=secure,
        cohort=given["settings"]["clients_per_round"],
        rounds=tuple(rounds),
        charges=tuple(charges),
        devices=devices,
        participations=count_participations(folder, secure, devices),
        attacks=read_attacks(options.attacks),
    )


def _options(path: Path) -> dict[str, Any]:
    """FederationOptions as JSON values, from either kind of file."""
    from pocketquery.server.federation.rounds.options import OPTIONS, FederationOptions
    from pocketquery_privacy.federation import read_json

    if path.suffix == ".toml":
        try:
            flower = tomllib.loads(path.read_text(encoding="utf-8"))["tool"]["flwr"]
            config = flower["app"]["config"]
        except FileNotFoundError as error:
            raise ArtifactNotFoundError(f"{path} is not there") from error
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptArtifactError(
                f"{path} has no table [tool.flwr.app.config] ({error}); name the pyproject.toml "
                "of the Flower app"
            ) from error
        known = {one.name for one in OPTIONS}
        given = {name: value for name, value in config.items() if name in known}
        return FederationOptions.of(given).to_dict()
    values = read_json(path, "name the settings with --settings: the Flower app's pyproject.toml")
    try:
        options = values["options"]
        options["settings"]["clients_per_round"] + 0
        return {"secure": None, **options}
    except (KeyError, TypeError) as error:
        raise CorruptArtifactError(
            f"{path} is not a simulation's settings ({error}); expected simulation.json"
        ) from error
