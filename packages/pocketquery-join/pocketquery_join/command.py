"""``pocketquery join``: this device takes part in federated rounds through a gateway."""

from __future__ import annotations

import contextlib
import json
import logging
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pocketquery.client.private.rules import DeviceRules
from pocketquery.sdk.errors import InvalidInputError, PocketQueryError
from pocketquery.sdk.settings.command_line import add_settings_command
from pocketquery.sdk.settings.declaration import Option, Part, Settings, declared
from pocketquery.sdk.validation import whole

if TYPE_CHECKING:
    from pocketquery.client.device import Device
    from pocketquery.client.private.participant import Participant
    from pocketquery_join.outcome import Outcome
    from pocketquery_join.participation import Participation

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
_LEAST_WAIT = 1.0
# Seconds, where the gateway gives no usable answer, and at most where it asks for them.
_FIRST_PAUSE, _LONGEST_PAUSE, _LONGEST_ASKED = 30.0, 900.0, 3600.0
_LONGEST_LINE = 400
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class PrivateOptions(Settings):
    """How the device is enrolled, and what it insists on whatever a server asks."""

    enrolment: Annotated[str | None, "public key of who enrols, or its PEM", Option("KEY")] = None
    certificate: Annotated[str | None, "its word for this device's key", Option("FILE")] = None
    revoked: Annotated[str | None, "device keys that are none any more", Option("FILE")] = None
    rules: Annotated[
        DeviceRules | None,
        Part(
            *("secure", "least", "least_noisy", "largest_group", "neighbours", "collusion"),
            *("rest", "privacy", "noise_least", "participations", "seasons", "epsilon", "delta"),
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class JoinOptions(Settings):
    """What ``pocketquery join`` takes."""

    gateway: Annotated[str, "https://host[:port]", Option("URL")]
    bundle: Annotated[str, "with a training step"]
    index: Annotated[str, "what the device searches", Option("FOLDER")]
    state: Annotated[str, "of this device", Option("FOLDER")]
    public_key: Annotated[str | None, "whose releases to take, see verify", Option("KEY")] = None
    policy: Annotated[Literal["phone", "always"], "when to train"] = "phone"
    authority: Annotated[
        str | None, "PEM of the authority to trust (default: the system's)", Option("FILE")
    ] = None
    times: Annotated[
        int,
        whole(0),
        "ask so often, and end at a failure (default: until stopped, whatever fails)",
    ] = 0
    leave: Annotated[bool, "have the gateway forget this device, and end"] = False
    json: Annotated[bool, "print one JSON object a line"] = False
    private: Annotated[PrivateOptions, "private rounds (experimental)"] = PrivateOptions()


def join(subparsers: Any) -> None:
    """Add the sub-command to the shell's parsers."""
    add_settings_command(
        subparsers,
        "join",
        "Take part in federated rounds through a gateway, and fetch what they release.",
        _EPILOG,
        JoinOptions,
        _run,
    )


def _run(options: JoinOptions) -> int:
    from pocketquery_join.connection import GatewayConnection, device_key
    from pocketquery_join.participation import Participation

    with GatewayConnection(
        options.gateway, device_key(options.state), authority_file=options.authority
    ) as connection:
        participation = Participation(connection, options.state)
        if options.leave:
            participation.leave()
            return 0
        with _opened(options) as (_, participant):  # what is wrong with it is told at once
            if participant is not None:  # it may have been killed in a round
                participation.private.round = participant.round
        return _rounds(participation, options)


class _ConfigurationError(InvalidInputError):
    """The device cannot be opened as its options say."""


def _rounds(
    participation: Participation,
    options: JoinOptions,
    sleep: Callable[[float], None] = time.sleep,
    draw: Callable[[], float] = random.random,
) -> int:
    """Register, and ask for offers as often as is wanted.

    Where that is until stopped, nothing that a gateway, or what is in its place, answers ends it:
    what is of no use is told in a line, and the gateway is asked again after a pause that grows.
    What ends it are the device's own options.

    Args:
        participation: of this device.
        options: the command's.
        sleep: waits so many seconds.
        draw: a random number from 0 to 1, for how long it waits.
    """
    asked = 0
    state = _Standing()
    while True:
        outcome, failures = _once(participation, options, state)
        if outcome is not None:
            asked += 1
            _tell(outcome, as_json=options.json)
        for error in failures:
            if options.times or isinstance(error, _ConfigurationError):
                raise error
            _tell_failure(error, state, as_json=options.json)
        if options.times and asked >= options.times:
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
    participation: Participation, options: JoinOptions, state: _Standing
) -> tuple[Outcome | None, list[Exception]]:
    """Take part once, and fetch what is in force; the device is opened only where there is
    something for it to do. Its result, None where there was none, and what failed."""
    from pocketquery_join.connection import Refused, UnreachableError

    outcome, was_registered = None, state.is_registered
    failures: list[Exception] = []
    try:
        if not state.is_registered:
            participation.register()
            state.is_registered = True
        outcome = _turn(participation, options)
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
            with _opened(options) as (device, _):
                participation.refresh(device.manifest, device.releases)
    except Refused as error:
        if error.code != "no_release":
            failures.append(error)
    except Exception as error:
        failures.append(error)
    return outcome, failures


def _turn(participation: Participation, options: JoinOptions) -> Outcome:
    from pocketquery.client.private.state_file import StateFile
    from pocketquery.client.store.file import SECURE
    from pocketquery_join.connection import Refused
    from pocketquery_join.outcome import Outcome

    state = StateFile(Path(options.state) / SECURE)
    state.drop_over(time.time())  # also of a device that is enrolled no more
    try:
        return participation.take_part(lambda: _opened(options), state)
    except Refused as error:
        if error.code != "quota":
            raise
        return Outcome("left out", str(error), round(error.retry_after))


def _config(options: JoinOptions) -> dict[str, Any]:
    """The options as a SuperNode's configuration has them."""
    private = options.private
    settings: dict[str, Any] = {
        **{name: getattr(options, name) for name in ("bundle", "index", "state", "policy")},
        "public-key": options.public_key,
        **{name: getattr(private, name) for name in ("enrolment", "certificate", "revoked")},
    }
    if private.rules is not None:
        rules = {one.name: getattr(private.rules, one.name) for one in declared(DeviceRules)}
        del rules["revoked"]
        settings |= {name.replace("_", "-"): value for name, value in rules.items()}
    return {name: value for name, value in settings.items() if value is not None}


@contextlib.contextmanager
def _opened(options: JoinOptions) -> Iterator[tuple[Device, Participant | None]]:
    """The device, and where it is enrolled, what takes part in private rounds."""
    from pocketquery.client.device_files import open_device, open_participant, rules_of

    config = _config(options)
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
    from pocketquery_join.connection import Refused

    return min(_LONGEST_ASKED, error.retry_after) if isinstance(error, Refused) else 0.0


def _tell_failure(error: Exception, state: _Standing, *, as_json: bool) -> None:
    """Say what failed: of a gateway that is away once, until it answers."""
    from pocketquery_join.connection import UnreachableError
    from pocketquery_join.outcome import Outcome

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
