"""The options of a federation by name, for command lines and for Flower's run configuration.

One table says what there is; the values become the dataclasses that the rounds work with, which
check them.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pocketquery.client.local_config import LocalConfig
from pocketquery.sdk.bundle.signature import public_key_bytes
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.validation import check, one_of, whole
from pocketquery.server.federation.rounds.server_optimizers import optimizer_from_dict
from pocketquery.server.federation.rounds.settings import RoundSettings
from pocketquery.server.private.settings import (
    LEAST_COHORT,
    LEAST_GROUPS,
    SecureSettings,
)

__all__ = ["OPTIONS", "FederationOptions", "Option"]


@dataclass(frozen=True)
class Option:
    """One option: ``--name`` on a command line, ``name`` in a run configuration."""

    name: str
    default: int | float | str | bool
    help: str

    @property
    def switch(self) -> str:
        """The option without which this one does nothing, as its help says first; or empty."""
        return _SWITCHES.get(self.help.partition(":")[0], ("", ""))[0]

    @property
    def switched_on(self) -> str:
        """How :attr:`switch` is switched on, in words."""
        return _SWITCHES[self.help.partition(":")[0]][1]


# What an option's help begins with: the option that is meant, and how that is switched on from its
# default, at which it is off.
_SWITCHES = {
    "secure": ("secure", "set secure to on"),
    "privacy": ("privacy", "set privacy to devices or server, with secure on"),
    "buffered": ("mode", "set mode to buffered"),
}

_LOCAL = LocalConfig()
_ROUND = RoundSettings()
_SECURE = SecureSettings(federation="-", enrolment="0" * 64)

OPTIONS = (
    Option("rounds", 20, "how many rounds"),
    Option("clients-per-round", _ROUND.clients_per_round, "valid replies wanted in a round"),
    Option("over-selection", _ROUND.over_selection, "times as many devices are asked"),
    Option("least-replies", _ROUND.least_replies, "with fewer valid replies a round is skipped"),
    Option("deadline", _ROUND.deadline_seconds, "seconds after which replies are too late"),
    Option("clip-norm", _ROUND.clip_norm, "largest L2 norm of a device's change"),
    Option("weighting", _ROUND.weighting, "of devices: equal, or declared (by themselves)"),
    Option("largest-weight", _ROUND.largest_weight, "largest weight a device may declare"),
    Option("aggregation", _ROUND.aggregation, "mean, trimmed_mean or median (across shards)"),
    Option("shards", _ROUND.shards, "running sums that updates are dealt to"),
    Option("mode", _ROUND.mode, "synchronous, or buffered: a step as soon as updates are there"),
    Option("in-flight", _ROUND.in_flight, "buffered: devices that train at once; 0: 4 x clients"),
    Option("most-staleness", _ROUND.most_staleness, "buffered: releases an update may be behind"),
    Option("optimizer", "fedavg", "of the server: fedavg, fedavgm, fedadam or fedyogi"),
    Option("server-learning-rate", 1.0, "of the server's optimizer"),
    Option("steps", _LOCAL.steps, "training steps on a device"),
    Option("batch-size", _LOCAL.batch_size, "queries a step"),
    Option("learning-rate", _LOCAL.learning_rate, "on the device"),
    Option("anchor-weight", _LOCAL.anchor_weight, "of the pull to the shipped encoder"),
    Option("opened-weight", _LOCAL.opened_loss_weight, "of opened results; 0 is off, 1 is on"),
    Option("hybrid-weight", _LOCAL.hybrid_loss_weight, "of the index's hybrid ranking; 1 is on"),
    Option("hybrid-mistyped", _LOCAL.hybrid_mistyped, "share of queries taught it as mistyped"),
    Option("typo-rate", _LOCAL.typo_rate, "share of letters mistyped in the noisy view"),
    Option("proximal", _LOCAL.proximal, "FedProx: share of the way back after each step"),
    Option("client-init", _LOCAL.client_init, "global, or ema (FedEMA)"),
    Option("compress", True, "updates in 8 bits with error feedback, not in float32"),
    Option("seed", 0, "of the choice of devices"),
    Option("gateways", 0, "nodes are gateways, so many of them; 0: nodes are devices"),
    Option("secure", "off", "on: the server learns masked sums alone (experimental)"),
    Option("federation", "", "secure: the name or id that devices are enrolled for"),
    Option("enrolment", "", "secure: public key of the authority that enrols devices, or its PEM"),
    Option("secure-neighbours", _SECURE.neighbours, "secure: devices that one shares masks with"),
    Option("secure-least", _SECURE.least, "secure: devices in a group; 100 with noise"),
    Option("secure-largest-group", _SECURE.largest_group, "privacy: the devices' largest-group"),
    Option("secure-groups", _SECURE.groups, "secure: sums a round; robust means need 5 or more"),
    Option("stage-deadline", _SECURE.stage_deadline, "secure: seconds of a stage after training"),
    Option("rest", _SECURE.rest, "secure: rounds before a device takes part again"),
    Option("privacy", _SECURE.privacy, "secure: noise: off, or devices: they add it"),
    Option("noise-multiplier", _SECURE.noise_multiplier, "privacy: noise over sensitivity"),
    Option("season", _SECURE.season, "privacy: name of the season; a new one is a new budget"),
    Option("participations", _SECURE.participations, "privacy: of a device in a season, at most"),
    Option("season-rounds", _SECURE.season_rounds, "privacy: rounds of a season"),
    Option("epsilon", _SECURE.epsilon, "privacy: what a season may spend"),
    Option("delta", _SECURE.delta, "privacy: the delta that epsilon is told at"),
    Option("range", _SECURE.range, "secure: largest value; 0: 1.25 x steps x learning rate"),
)

# What has no meaning under masks, and why. At its default it is no wish.
_REFUSED = {
    "largest-weight": "every device counts alike under masks",
    "compress": "masked sums have an encoding of their own, of 16 bits a value",
    "shards": "devices are dealt to groups; set secure-groups instead",
    "mode": "masks cancel among devices that answer together, a buffer takes them as they come",
}


@dataclass(frozen=True)
class FederationOptions:
    """What :data:`OPTIONS` describe, checked.

    Attributes:
        rounds: how many.
        seed: of the choice of devices.
        compress: whether updates travel in 8 bits.
        gateways: how many nodes are gateways that answer for cohorts; 0: nodes are devices.
        settings: of a round.
        local: how devices train.
        secure: how private rounds are run; None: the rounds are plain.
    """

    rounds: int = 20
    seed: int = 0
    compress: bool = True
    gateways: int = 0
    settings: RoundSettings = field(default_factory=RoundSettings)
    local: LocalConfig = field(default_factory=LocalConfig)
    secure: SecureSettings | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> FederationOptions:
        """The options ``given`` by name; the others have their defaults.

        Raises:
            InvalidInputError: a value of another kind, or out of range; one of private rounds,
                where those are off; names that are no options are left to the caller.
        """
        v = {one.name: _value(one, given.get(one.name, one.default)) for one in OPTIONS}
        optimizer = {"name": v["optimizer"], "learning_rate": v["server-learning-rate"]}
        settings = RoundSettings(
            clients_per_round=v["clients-per-round"],
            over_selection=v["over-selection"],
            least_replies=_least_replies(v["least-replies"], v["clients-per-round"]),
            deadline_seconds=v["deadline"],
            clip_norm=v["clip-norm"],
            weighting=v["weighting"],
            largest_weight=v["largest-weight"],
            aggregation=v["aggregation"],
            shards=v["shards"],
            optimizer=optimizer_from_dict(optimizer),
            mode=v["mode"],
            in_flight=v["in-flight"],
            most_staleness=v["most-staleness"],
        )
        local = LocalConfig(
            steps=v["steps"],
            batch_size=v["batch-size"],
            learning_rate=v["learning-rate"],
            anchor_weight=v["anchor-weight"],
            opened_loss_weight=v["opened-weight"],
            hybrid_loss_weight=v["hybrid-weight"],
            hybrid_mistyped=v["hybrid-mistyped"],
            typo_rate=v["typo-rate"],
            proximal=v["proximal"],
            client_init=v["client-init"],
        )
        if v["rounds"] < 1 or v["seed"] < 0:
            raise InvalidInputError(
                f"found {v['rounds']} rounds and the seed {v['seed']}, expected at least one round "
                "and a seed from 0"
            )
        check("gateways", v["gateways"], whole(0))
        plain = cls(v["rounds"], v["seed"], v["compress"], v["gateways"], settings, local)
        is_secure = _is_secure(v)
        _check_switches(v)
        return plain._with_secure_sums(v) if is_secure else plain

    def _with_secure_sums(self, v: Mapping[str, Any]) -> FederationOptions:
        """The same as private rounds; ``v`` are the values of all options."""
        for one in OPTIONS:
            if one.name in _REFUSED and v[one.name] != one.default:
                raise InvalidInputError(
                    f"{one.name} is {v[one.name]!r} with secure on: {_REFUSED[one.name]}"
                )
        if not v["enrolment"]:
            raise InvalidInputError(
                "enrolment is empty, expected the public key of the authority that signs devices' "
                "certificates (64 hexadecimal digits, or a PEM file); see pocketquery enrol"
            )
        groups, aggregation = v["secure-groups"], self.settings.aggregation
        if groups == 1 and aggregation == _ROUND.aggregation:
            aggregation = "mean"  # that default is for rounds with shards
        least = v["secure-least"]
        if v["privacy"] != "off" and least == _SECURE.least:
            least = LEAST_COHORT
        secure = SecureSettings(
            federation=v["federation"],
            enrolment=public_key_bytes(v["enrolment"]).hex(),
            neighbours=v["secure-neighbours"],
            least=least,
            largest_group=v["secure-largest-group"],
            groups=groups,
            stage_deadline=v["stage-deadline"],
            rest=v["rest"],
            privacy=v["privacy"],
            noise_multiplier=v["noise-multiplier"],
            season=v["season"],
            participations=v["participations"],
            season_rounds=v["season-rounds"],
            epsilon=v["epsilon"],
            delta=v["delta"],
            range=v["range"],
        )
        if self.local.client_init != "global":
            raise InvalidInputError(
                f"client-init is {self.local.client_init!r} with secure on, expected global: what "
                "a device keeps of one round would be in its change of another"
            )
        _check_secure(secure, self.settings, aggregation)
        settings = replace(self.settings, aggregation=aggregation, shards=groups)
        return replace(self, secure=secure, settings=settings)

    def with_secret_shards(self) -> FederationOptions:
        """The same, with shards that no device can foresee: its nonce decides where it is summed.

        Not for simulations, which are to be the same from the same seed.
        """
        return replace(self, settings=replace(self.settings, shard_seed=secrets.randbits(63)))

    def to_dict(self) -> dict[str, Any]:
        """The options as JSON values; the seed of the shards, which may be a secret, is not one."""
        gateways = {"gateways": self.gateways} if self.gateways else {}
        return {
            **gateways,
            "rounds": self.rounds,
            "seed": self.seed,
            "compress": self.compress,
            "settings": {k: v for k, v in self.settings.to_dict().items() if k != "shard_seed"},
            "local": self.local.to_dict(),
            "secure": None if self.secure is None else self.secure.to_dict(),
        }


def _is_secure(values: Mapping[str, Any]) -> bool:
    check("secure", values["secure"], one_of("off", "on"))
    if values["secure"] == "off" and values["privacy"] != "off":
        raise InvalidInputError(
            f"privacy is {values['privacy']!r} with secure off: noise is added to masked sums; set "
            "secure to on"
        )
    return bool(values["secure"] == "on")


def _check_switches(values: Mapping[str, Any]) -> None:
    """See that nothing is wished for that is off: whoever sets an epsilon counts on noise.

    Raises:
        InvalidInputError: an option is off its default while its switch is off.
    """
    defaults = {one.name: one.default for one in OPTIONS}
    for one in OPTIONS:
        found, off = values[one.name], defaults.get(one.switch)
        if one.switch and values[one.switch] == off and found != one.default:
            raise InvalidInputError(
                f"{one.name} is {found!r} with {one.switch} {off}, where it does nothing; "
                f"{one.switched_on}, or leave {one.name} out"
            )


def _least_replies(least: int, wanted: int) -> int:
    """``least``; its default is for rounds of many, and gives way to a round of few."""
    return min(least, wanted) if least == _ROUND.least_replies else least


def _value(option: Option, given: Any) -> Any:
    """``given`` in the option's kind; a whole number does where a fraction may stand."""
    kind = type(option.default)
    if kind is float and type(given) is int:
        return float(given)
    if type(given) is not kind:
        raise InvalidInputError(
            f"{option.name} is {given!r}, expected {'a ' + kind.__name__}: {option.help}"
        )
    return given


def _check_secure(secure: SecureSettings, settings: RoundSettings, aggregation: str) -> None:
    """See that rounds of ``settings``, with this ``aggregation``, can be secure sums.

    Raises:
        InvalidInputError: they cannot; the first reason, and what to change.
    """
    wanted, groups = settings.clients_per_round, secure.groups
    if settings.weighting != "equal":
        raise InvalidInputError(
            f"weighting is {settings.weighting!r}, but under masks every device counts alike: a "
            "masked weight would be one more secret to bound. Leave weighting at equal"
        )
    if secure.is_noisy and (groups > 1 or aggregation != "mean"):
        raise InvalidInputError(
            f"found {groups} groups and the aggregation {aggregation!r} with noise, "
            "expected one group and the mean: each group's sum would need the noise of a whole one"
        )
    if secure.is_noisy and wanted < LEAST_COHORT:
        raise InvalidInputError(
            f"clients-per-round is {wanted}, expected at least {LEAST_COHORT} with noise: of fewer "
            "devices the noise leaves nothing to learn"
        )
    if groups == 1 and aggregation != "mean":
        raise InvalidInputError(
            f"aggregation is {aggregation!r} over one group, expected mean; or "
            f"secure-groups of at least {LEAST_GROUPS}"
        )
    if aggregation != "mean" and groups < LEAST_GROUPS:
        raise InvalidInputError(
            f"secure-groups is {groups}, expected 1, or at least {LEAST_GROUPS} for {aggregation}"
        )
    if secure.least * groups > wanted:
        raise InvalidInputError(
            f"secure-least is {secure.least} devices in each of {groups} groups, but "
            f"clients-per-round is {wanted}; ask more devices, or make fewer groups"
        )
