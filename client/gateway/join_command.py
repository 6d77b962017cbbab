"""``pocketquery join``: this device takes part in federated rounds through a gateway."""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pocketquery.sdk.commands import add_command
from pocketquery.sdk.errors import InvalidInputError, PocketQueryError
from pocketquery.sdk.validation import check, whole

if TYPE_CHECKING:
    from pocketquery.client.device import Device
    from pocketquery.client.gateway.outcome import Outcome
    from pocketquery.client.gateway.participation import Participation
    from pocketquery.client.private.participant import Participant

__all__ = ["join"]

_EPILOG = """\
example:
  pocketquery join --gateway https://gateway.example.org --bundle bundle --index index \\
      --state state --public-key publisher.pub.pem

The state folder holds the user's queries (with their consent, see docs/devices.md), what is kept
between rounds, this device's key for the gateway, and adapter.safetensors, the release to search
with: pocketquery search --adapter state/adapter.safetensors.

For private rounds (experimental) the device was enrolled, see pocketquery enrol: its key is in the
state folder, --enrolment and --certificate name the rest. What it then insists on, whatever a
server asks, are the options of the last group; docs/privacy.md has their defaults.
"""
# Named as in a SuperNode's configuration; their defaults are DeviceRules'.
_RULES: tuple[tuple[str, type, str], ...] = (
    ("secure", str, "required: decline plain rounds; or allowed"),
    ("least", int, "devices in a group, and survivors of it"),
    ("least-noisy", int, "the same where there is noise"),
    ("largest-group", int, "devices that a group with their noise counts as, at most"),
    ("neighbours", int, "that each device shares masks with"),
    ("collusion", float, "share of them that the threshold must withstand"),
    ("rest", int, "rounds between two that this device takes part in"),
    ("privacy", str, "devices: only rounds whose noise devices add; or any"),
    ("noise-least", float, "smallest noise multiplier"),
    ("participations", int, "in a season"),
    ("seasons", int, "that this device takes part in"),
    ("epsilon", float, "that a season may cost"),
    ("delta", float, "of that epsilon"),
)
_LEAST_WAIT = 1.0
# Seconds, where the gateway gives no usable answer, and at most where it asks for them.
_FIRST_PAUSE, _LONGEST_PAUSE, _LONGEST_ASKED = 30.0, 900.0, 3600.0
_LONGEST_LINE = 400
_log = logging.getLogger(__name__)
_FILES = ("bundle", "index", "state")


def join(subparsers: Any) -> None:
    """Add the sub-command to the shell's parsers."""
    parser = add_command(
        subparsers,
        "join",
        "Take part in federated rounds through a gateway, and fetch what they release.",
        _EPILOG,
        _run,
    )
    parser.add_argument("--gateway", required=True, metavar="URL", help="https://host[:port]")
    parser.add_argument("--bundle", required=True, help="with a training step")
    parser.add_argument("--index", required=True, metavar="FOLDER", help="what the device searches")
    parser.add_argument("--state", required=True, metavar="FOLDER", help="of this device")
    parser.add_argument("--public-key", metavar="KEY", help="whose releases to take, see verify")
    parser.add_argument(
        "--policy", default="phone", choices=("phone", "always"), help="when to train"
    )
    parser.add_argument(
        "--authority", metavar="FILE", help="PEM of the authority to trust (default: the system's)"
    )
    parser.add_argument(
        "--times",
        type=int,
        default=0,
        metavar="N",
        help="ask so often, and end at a failure (default: until stopped, whatever fails)",
    )
    parser.add_argument(
        "--leave", action="store_true", help="have the gateway forget this device, and end"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")
    private = parser.add_argument_group("private rounds (experimental)")
    private.add_argument("--enrolment", metavar="KEY", help="public key of who enrols, or its PEM")
    private.add_argument("--certificate", metavar="FILE", help="its word for this device's key")
    private.add_argument("--revoked", metavar="FILE", help="device keys that are none any more")
    for name, kind, said in _RULES:
        private.add_argument(f"--{name}", type=kind, metavar=name[0].upper(), help=said)


def _run(arguments: argparse.Namespace) -> int:
    from pocketquery.client.gateway.connection import GatewayConnection, device_key
    from pocketquery.client.gateway.participation import Participation

    check("--times", arguments.times, whole(0))
    with GatewayConnection(
        arguments.gateway, device_key(arguments.state), authority_file=arguments.authority
    ) as connection:
        participation = Participation(connection, arguments.state)
        if arguments.leave:
            participation.leave()
            return 0
        with _opened(arguments) as (_, participant):  # what is wrong with it is told at once
            if participant is not None:  # it may have been killed in a round
                participation.private.round = participant.round
        return _rounds(participation, arguments)


class _ConfigurationError(InvalidInputError):
    """The device cannot be opened as its options say."""


def _rounds(
    participation: Participation,
    arguments: argparse.Namespace,
    sleep: Callable[[float], None] = time.sleep,
    draw: Callable[[], float] = random.random,
) -> int:
    """Register, and ask for offers as often as is wanted.

    Where that is until stopped, nothing that a gateway, or what is in its place, answers ends it:
    what is of no use is told in a line, and the gateway is asked again after a pause that grows.
    What ends it are the device's own options.

    Args:
        participation: of this device.
        arguments: the command's.
        sleep: waits so many seconds.
        draw: a random number from 0 to 1, for how long it waits.
    """
    asked = 0
    state = _Standing()
    while True:
        outcome, failures = _once(participation, arguments, state)
        if outcome is not None:
            asked += 1
            _tell(outcome, as_json=arguments.json)
        for error in failures:
            if arguments.times or isinstance(error, _ConfigurationError):
                raise error
            _tell_failure(error, state, as_json=arguments.json)
        if arguments.times and asked >= arguments.times:
            return 0
        if failures:
            pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(state.missed, 9))
            # So that devices do not come back at once.
            sleep(max([pause, *map(_asked_pause, failures)]) * (1 + draw() / 2))
            state.missed += 1
        elif outcome is not None:
            state.missed, state.is_away = 0, False
            sleep(max(_LEAST_WAIT, outcome.retry_after))


@dataclass
class _Standing:
    """How a device stands with its gateway.

    Attributes:
        is_registered: since this command began.
        is_away: it could not be reached when it was asked last.
        missed: turns, one after the other, in which something failed.
    """

    is_registered: bool = False
    is_away: bool = False
    missed: int = 0


def _once(
    participation: Participation, arguments: argparse.Namespace, state: _Standing
) -> tuple[Outcome | None, list[Exception]]:
    """Take part once, and fetch what is in force; the device is opened only where there is
    something for it to do. Its result, None where there was none, and what failed."""
    from pocketquery.client.gateway.connection import Refused, UnreachableError

    outcome, was_registered = None, state.is_registered
    failures: list[Exception] = []
    try:
        if not state.is_registered:
            participation.register()
            state.is_registered = True
        outcome = _turn_within_quota(participation, arguments)
    except UnreachableError as error:
        return None, [error]
    except Refused as error:
        if error.code == "unknown_device":
            state.is_registered = False  # the gateway was given another journal
            if was_registered:
                return None, []
        failures.append(error)
    except Exception as error:
        failures.append(error)
    try:
        if not participation.is_current():
            with _opened(arguments) as (device, _):
                participation.refresh(device.manifest, device.releases)
    except Refused as error:
        if error.code != "no_release":
            failures.append(error)
    except Exception as error:
        failures.append(error)
    return outcome, failures


def _turn_within_quota(participation: Participation, arguments: argparse.Namespace) -> Outcome:
    from pocketquery.client.gateway.connection import Refused
    from pocketquery.client.gateway.outcome import Outcome

    try:
        return _turn(participation, arguments)
    except Refused as error:
        if error.code != "quota":
            raise
        return Outcome("left out", str(error), round(error.retry_after))


def _turn(participation: Participation, arguments: argparse.Namespace) -> Outcome:
    from pocketquery.client.gateway.outcome import Outcome
    from pocketquery.client.offer import UnusableOfferError
    from pocketquery.client.private.state_file import StateFile
    from pocketquery.client.store.file import SECURE

    number, state = participation.private.round, StateFile(Path(arguments.state) / SECURE)
    state.drop_over(time.time())  # also of a device that is enrolled no more
    found = participation.private.next_message()
    if isinstance(found, Outcome) and found.what == "waiting":
        return found
    if isinstance(found, Outcome) and number is not None:
        state.give_up(number)
    if not isinstance(found, Outcome):
        with _opened(arguments) as (_, participant):
            assert participant is not None
            return participation.private.answer(found, participant)
    try:
        offered, wait = participation.ask()
        if offered is None:
            return Outcome("idle", retry_after=wait)
        with _opened(arguments) as (device, participant):
            return participation.reply(offered, device, participant)
    except UnusableOfferError as error:
        return participation.decline(error.round, str(error))


def _config(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options as a SuperNode's configuration has them."""
    rules = [name for name, _, _ in _RULES]
    names = [*_FILES, "policy", "public-key", "enrolment", "certificate", "revoked", *rules]
    given = {name: getattr(arguments, name.replace("-", "_")) for name in names}
    return {name: value for name, value in given.items() if value is not None}


@contextlib.contextmanager
def _opened(arguments: argparse.Namespace) -> Iterator[tuple[Device, Participant | None]]:
    """The device, and where it is enrolled, what takes part in private rounds."""
    from pocketquery.client.device_files import open_device, open_participant, rules_of

    config = _config(arguments)
    with contextlib.ExitStack() as stack:
        try:
            device = stack.enter_context(open_device(config))
            participant = None
            if rules_of(config) is not None:
                participant = stack.enter_context(open_participant(config, device))
        except InvalidInputError as error:
            raise _ConfigurationError(str(error)) from error
        yield device, participant


def _asked_pause(error: Exception) -> float:
    """Seconds that the gateway asks to wait for."""
    from pocketquery.client.gateway.connection import Refused

    return min(_LONGEST_ASKED, error.retry_after) if isinstance(error, Refused) else 0.0


def _tell_failure(error: Exception, state: _Standing, *, as_json: bool) -> None:
    """Say what failed: of a gateway that is away once, until it answers."""
    from pocketquery.client.gateway.connection import UnreachableError
    from pocketquery.client.gateway.outcome import Outcome

    if isinstance(error, UnreachableError):
        if not state.is_away:
            _tell(Outcome("unreachable", str(error)), as_json=as_json)
        state.is_away = True
        return
    state.is_away = False
    name = "" if isinstance(error, PocketQueryError) else f"{type(error).__name__}: "
    _tell(Outcome("unusable", f"{name}{error}"), as_json=as_json)
    _log.debug("what failed", exc_info=error)


def _tell(outcome: Outcome, *, as_json: bool) -> None:
    detail = _one_line(outcome.detail)
    if as_json:
        print(json.dumps({"outcome": outcome.what, "detail": detail}), flush=True)
    elif outcome.what not in ("idle", "waiting"):
        print(f"{outcome.what}{': ' if detail else ''}{detail}", flush=True)


def _one_line(text: str) -> str:
    """``text`` without line breaks and control characters, which may be the gateway's."""
    line = "".join(one if one.isprintable() else " " for one in text[:_LONGEST_LINE])
    return line.encode("utf-8", "backslashreplace").decode()
