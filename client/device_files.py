"""A device loaded from disk: what a SuperNode's ``--node-config``, or a command, names.

``state`` is a folder for ``queries.sqlite``, the query store, and ``rounds.safetensors``, what is
kept between rounds. Optional: ``public-key`` (bundle and releases must be signed by its private
half, from then on, also where the key is left out later: ``trusted-releases.sqlite`` remembers it
and what is in force), ``replaced-key`` (a lost one, which ``public-key`` takes the place of);
``policy``: ``phone``, the default, or ``always`` for a machine that trains whenever it is asked;
``figures``: ``false`` sends the update alone; and the device's own limits to what is offered, see
:class:`pocketquery.client.offer_limits.OfferLimits`: ``least-queries``, ``least-steps``,
``most-steps``, ``least-batch``, ``most-repetitions``, ``largest-clip``, ``largest-learning-rate``,
``largest-weight-decay``, ``largest-proximal``, ``largest-opened-weight``,
``largest-hybrid-weight``, ``least-typo-rate``, ``least-temperature``, ``largest-drift`` and
``least-kept``.

For private rounds (experimental) a device was enrolled: ``enrolment`` is the authority's public key
(64 hexadecimal digits, or a PEM file), ``certificate`` a file with its word for the device's own
key (``pocketquery enrol``), which is in ``state``, with its progress in a round and what rounds
have cost it. What it insists on then, see :class:`pocketquery.client.private.rules.DeviceRules`:
``secure`` (``required``, the default, declines every offer of a plain round; ``allowed``),
``least``, ``least-noisy``, ``largest-group``, ``neighbours``, ``collusion``, ``rest``, ``privacy``,
``noise-least``, ``participations``, ``seasons``, ``epsilon``, ``delta``, and ``revoked``, a file of
device keys in hexadecimal digits, one a line. With one of them and without enrolment or certificate
no device is opened: it would take part in plain rounds.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from pocketquery.client.device import Device, TrainingSetup
from pocketquery.client.offer_limits import OfferLimits
from pocketquery.client.policy import Policy
from pocketquery.client.private.keys import DEVICE_KEY, KEY_BYTES, Certificate, DeviceKey
from pocketquery.client.private.ledger import LEDGER, Ledger
from pocketquery.client.private.participant import Participant
from pocketquery.client.private.rules import DeviceRules
from pocketquery.client.private.state_file import StateFile
from pocketquery.client.readings import SystemReadings
from pocketquery.client.round_memory import RoundMemory
from pocketquery.client.store.file import ROUNDS, SECURE
from pocketquery.client.store.store import QueryStore
from pocketquery.client.trusted_releases import TRUSTED_RELEASES, TrustedReleases
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.index.index import open_index

__all__ = ["open_device", "open_participant", "rules_of"]

_PATHS = ("bundle", "index", "state")
_NAMES = {one.name.replace("_", "-"): one.name for one in fields(OfferLimits)}
_RULES = {
    one.name.replace("_", "-"): one.name for one in fields(DeviceRules) if one.name != "revoked"
}
_ENROLLED = ("enrolment", "certificate")
_KEYS = {"public-key", "replaced-key"}
_CONFIG_KEYS = {*_PATHS, *_KEYS, "policy", "figures", *_NAMES, "partition-id", "num-partitions"}
_CONFIG_KEYS |= {*_ENROLLED, *_RULES, "revoked"}
_HEXADECIMAL_KEY = re.compile(f"[0-9a-fA-F]{{{2 * KEY_BYTES}}}")


@contextlib.contextmanager
def open_device(config: Mapping[str, Any]) -> Iterator[Device]:
    """The device that a SuperNode's ``--node-config`` describes.

    Raises:
        InvalidInputError: a path is missing from it, or something in it is unknown or out of range.
        ArtifactError: what lies there cannot be used.
    """
    if unknown := config.keys() - _CONFIG_KEYS:  # a misspelt key must not leave releases unchecked
        raise InvalidInputError(
            f"found {', '.join(sorted(unknown))} in the SuperNode's configuration, expected some "
            f"of {', '.join(sorted(_CONFIG_KEYS))}"
        )
    paths = {name: Path(str(_setting(config, name))) for name in _PATHS}
    policy, limits, rules = _policy(config), _limits(config), rules_of(config)
    figures = config.get("figures", True)
    if not isinstance(figures, bool):
        raise InvalidInputError(f"figures is {figures!r}, expected true or false")
    paths["state"].mkdir(mode=0o700, parents=True, exist_ok=True)
    with (
        open_index(paths["index"]) as index,
        QueryStore.open(paths["state"] / "queries.sqlite") as store,
    ):
        StateFile(paths["state"] / SECURE).drop_over(time.time(), store.epoch)
        releases = TrustedReleases(
            paths["state"] / TRUSTED_RELEASES,
            public_key=config.get("public-key"),
            replaces=config.get("replaced-key"),
        )
        bundle = Bundle.open(paths["bundle"], public_key=releases.public_key)
        training_setup = TrainingSetup.of_bundle(bundle, index, public_key=releases.public_key)
        memory = RoundMemory(paths["state"] / ROUNDS)
        yield Device(
            training_setup,
            store,
            memory,
            policy=policy,
            readings=SystemReadings(),
            limits=limits,
            figures=figures,
            plain=rules is None or rules.secure != "required",
            releases=releases,
        )


@contextlib.contextmanager
def open_participant(
    config: Mapping[str, Any], device: Device | None = None
) -> Iterator[Participant]:
    """The same device in private rounds.

    Args:
        config: as :func:`open_device`.
        device: the device, where it is open already.

    Raises:
        InvalidInputError: it was not enrolled; the certificate is of another key; or as
            :func:`open_device`.
        ArtifactError: what lies there cannot be used.
    """
    with contextlib.ExitStack() as stack:
        device = stack.enter_context(open_device(config)) if device is None else device
        if (rules := rules_of(config)) is None:
            raise InvalidInputError(
                "found neither enrolment nor certificate in the SuperNode's configuration; private "
                "rounds need both, see pocketquery enrol"
            )
        state = Path(str(config["state"]))
        yield Participant(
            device,
            DeviceKey.open(state / DEVICE_KEY),
            Certificate.parse(Path(str(config["certificate"])).read_bytes()),
            str(config["enrolment"]),
            rules=rules,
            state=StateFile(state / SECURE),
            ledger=Ledger(state / LEDGER),
        )


def rules_of(config: Mapping[str, Any]) -> DeviceRules | None:
    """What the device insists on in private rounds; None where nothing of them is configured.

    Raises:
        InvalidInputError: a rule is out of range; there is no list of revoked keys where it should
            be; or private rounds are configured without enrolment or certificate. Such a device
            would take part in plain rounds.
    """
    private = [name for name in (*_ENROLLED, *_RULES, "revoked") if name in config]
    if not private:
        return None
    if missing := [name for name in _ENROLLED if not config.get(name)]:
        raise InvalidInputError(
            f"found {', '.join(private)} in the device's configuration, but "
            f"{' and '.join(missing)} missing or empty; private rounds need both, see pocketquery "
            "enrol. For plain rounds alone leave all of these out"
        )
    rules = {_RULES[name]: config[name] for name in _RULES if name in config}
    return DeviceRules(**rules, revoked=_revoked(config))


def _revoked(config: Mapping[str, Any]) -> frozenset[bytes]:
    if "revoked" not in config:
        return frozenset()
    path = Path(str(config["revoked"]))
    expected = f"expected device keys, {2 * KEY_BYTES} hexadecimal digits a line"
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InvalidInputError(
            f"the list of revoked keys {str(path)!r} cannot be read ({error}); {expected}"
        ) from error
    lines = [line.strip() for line in text.splitlines()]
    for number, line in enumerate(lines, 1):
        if line and not _HEXADECIMAL_KEY.fullmatch(line):
            raise InvalidInputError(
                f"{path}, line {number}: found {line!r:.80}, {expected}; what is no whole key "
                "would revoke nobody"
            )
    return frozenset(bytes.fromhex(line) for line in lines if line)


def _policy(config: Mapping[str, Any]) -> Policy:
    policies = {"phone": Policy, "always": Policy.always}
    name = config.get("policy", "phone")
    if name not in policies:
        raise InvalidInputError(f"policy is {name!r}, expected one of {', '.join(policies)}")
    return policies[name]()


def _limits(config: Mapping[str, Any]) -> OfferLimits:
    return OfferLimits(**{_NAMES[name]: config[name] for name in _NAMES if name in config})


def _setting(config: Mapping[str, Any], name: str) -> Any:
    if name not in config:
        raise InvalidInputError(
            f"found no {name!r} in the SuperNode's configuration ({', '.join(config) or 'empty'}); "
            'start it with --node-config \'bundle="…" index="…" state="…"\''
        )
    return config[name]
