"""``pocketquery join``: this device takes part in federated rounds through a gateway."""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pocketquery.sdk.commands import add_command
from pocketquery.sdk.validation import check, whole

if TYPE_CHECKING:
    from pocketquery.client.device import Device
    from pocketquery.client.gateway.outcome import Outcome
    from pocketquery.client.gateway.participation import Participation
    from pocketquery.client.secure.participant import Participant

__all__ = ["join"]

_EPILOG = """\
example:
  pocketquery join --gateway https://gateway.example.org --bundle bundle --index index \\
      --state state --public-key publisher.pub.pem

The state folder holds the user's queries (with their consent, see docs/federation.md), what is kept
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
_FIRST_PAUSE, _LONGEST_PAUSE = 30.0, 900.0  # seconds, where the gateway cannot be reached
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
        "--times", type=int, default=0, metavar="N", help="ask so often (default: until stopped)"
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


def _rounds(
    participation: Participation,
    arguments: argparse.Namespace,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Register, and ask for offers as often as is wanted. Where that is until stopped, a gateway
    that cannot be reached is told of once, and waited for."""
    from pocketquery.client.gateway.connection import Refused, UnreachableError
    from pocketquery.client.gateway.outcome import Outcome

    asked = missed = 0
    is_registered = False
    while True:
        try:
            if not is_registered:
                participation.register()
                is_registered = True
            outcome = _once(participation, arguments)
        except Refused as error:
            if not is_registered or error.code != "unknown_device":
                raise
            is_registered = False  # the gateway was given another journal
            continue
        except UnreachableError as error:
            if arguments.times:
                raise
            if not missed:
                _tell(Outcome("unreachable", str(error)), as_json=arguments.json)
            pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(missed, 9))
            sleep(pause * (1 + random.random() / 2))  # so that devices do not come back at once
            missed += 1
            continue
        asked, missed = asked + 1, 0
        _tell(outcome, as_json=arguments.json)
        if arguments.times and asked >= arguments.times:
            return 0
        sleep(max(_LEAST_WAIT, outcome.retry_after))


def _once(participation: Participation, arguments: argparse.Namespace) -> Outcome:
    """Take part once, and fetch what is in force; the device is opened only where there is
    something for it to do."""
    from pocketquery.client.gateway.connection import Refused
    from pocketquery.client.gateway.outcome import Outcome

    try:
        outcome = _turn(participation, arguments)
    except Refused as error:
        if error.code != "quota":
            raise
        outcome = Outcome("left out", str(error), round(error.retry_after))
    try:
        if not participation.is_current():
            with _opened(arguments) as (device, _):
                participation.refresh(device.manifest, device.releases)
    except Refused as error:
        if error.code != "no_release":
            raise
    return outcome


def _turn(participation: Participation, arguments: argparse.Namespace) -> Outcome:
    from pocketquery.client.gateway.messages import UnusableOfferError
    from pocketquery.client.gateway.outcome import Outcome
    from pocketquery.client.secure.state_file import StateFile
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
        device = stack.enter_context(open_device(config))
        participant = None
        if rules_of(config) is not None:
            participant = stack.enter_context(open_participant(config, device))
        yield device, participant


def _tell(outcome: Outcome, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"outcome": outcome.what, "detail": outcome.detail}), flush=True)
    elif outcome.what not in ("idle", "waiting"):
        print(f"{outcome.what}{': ' if outcome.detail else ''}{outcome.detail}", flush=True)
