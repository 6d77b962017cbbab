"""The options of a federation by name, for command lines and for Flower's run configuration.

One table says what there is; the values become the dataclasses that the rounds work with, which
check them.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from pocketquery.client.local_config import LocalConfig
from pocketquery.sdk.bundle.signature import public_key_bytes
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.settings.declaration import Part, Settings, declared
from pocketquery.sdk.validation import SEED, check, one_of, whole
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

# Which settings are options, and under which names.
_ROUND = Part(
    *("clients_per_round", "over_selection", "least_replies", "clip_norm", "weighting"),
    *("largest_weight", "aggregation", "shards", "mode", "in_flight", "most_staleness"),
    deadline_seconds="deadline",
)
_LOCAL = Part(
    *("steps", "batch_size", "learning_rate", "anchor_weight", "hybrid_mistyped", "typo_rate"),
    *("proximal", "client_init"),
    opened_loss_weight="opened-weight",
    hybrid_loss_weight="hybrid-weight",
)
_SECURE = Part(
    *("federation", "enrolment", "stage_deadline", "rest", "privacy", "noise_multiplier"),
    *("season", "participations", "season_rounds", "epsilon", "delta", "range"),
    neighbours="secure-neighbours",
    least="secure-least",
    largest_group="secure-largest-group",
    groups="secure-groups",
)


def _options(cls: type, part: Part) -> Iterator[Option]:
    settings = {one.name: one for one in declared(cls)}
    for field_name, name in part.options.items():
        one = settings[field_name]
        yield Option(name.replace("_", "-"), one.default, one.help)


def _chosen(part: Part, values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of ``part`` by field, of all options by name."""
    return {field: values[name.replace("_", "-")] for field, name in part.options.items()}


# What has no meaning under masks, and why. At its default it is no wish.
_REFUSED = {
    "largest-weight": "every device counts alike under masks",
    "compress": "masked sums have an encoding of their own, of 16 bits a value",
    "shards": "devices are dealt to groups; set secure-groups instead",
    "mode": "masks cancel among devices that answer together, a buffer takes them as they come",
}


@dataclass(frozen=True)
class FederationOptions(Settings):
    """What :data:`OPTIONS` describe."""

    rounds: Annotated[int, whole(), "how many rounds"] = 20
    seed: Annotated[int, SEED, "of the choice of devices"] = 0
    compress: Annotated[bool, "updates in 8 bits with error feedback, not in float32"] = True
    gateways: Annotated[
        int, whole(0), "nodes are gateways, so many of them; 0: nodes are devices"
    ] = 0
    settings: Annotated[RoundSettings, "of a round"] = field(default_factory=RoundSettings)
    local: Annotated[LocalConfig, "how devices train"] = field(default_factory=LocalConfig)
    secure: Annotated[SecureSettings | None, "of private rounds; None: rounds are plain"] = None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> FederationOptions:
        """The options ``given`` by name; the others have their defaults.

        Raises:
            InvalidInputError: a value of another kind, or out of range; one of private rounds,
                where those are off; names that are no options are left to the caller.
        """
        v = {one.name: _value(one, given.get(one.name, one.default)) for one in OPTIONS}
        optimizer = {"name": v["optimizer"], "learning_rate": v["server-learning-rate"]}
        least = v["least-replies"]
        if least == RoundSettings.least_replies:  # for rounds of many: gives way to one of few
            least = min(least, v["clients-per-round"])
        settings = RoundSettings(
            **_chosen(_ROUND, v)
            | {"optimizer": optimizer_from_dict(optimizer), "least_replies": least}
        )
        local = LocalConfig(**_chosen(_LOCAL, v))
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
        if groups == 1 and aggregation == RoundSettings.aggregation:
            aggregation = "mean"  # that default is for rounds with shards
        least = v["secure-least"]
        if v["privacy"] != "off" and least == SecureSettings.least:
            least = LEAST_COHORT
        enrolment = public_key_bytes(v["enrolment"]).hex()
        secure = SecureSettings(**_chosen(_SECURE, v) | {"enrolment": enrolment, "least": least})
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


OPTIONS = (
    *_options(FederationOptions, Part("rounds")),
    *_options(RoundSettings, _ROUND),
    Option("optimizer", "fedavg", "of the server: fedavg, fedavgm, fedadam or fedyogi"),
    Option("server-learning-rate", 1.0, "of the server's optimizer"),
    *_options(LocalConfig, _LOCAL),
    *_options(FederationOptions, Part("compress", "seed", "gateways")),
    Option("secure", "off", "on: the server learns masked sums alone (experimental)"),
    *_options(SecureSettings, _SECURE),
)
_DEFAULTS = {one.name: one.default for one in OPTIONS}


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
    for one in OPTIONS:
        value, off = values[one.name], _DEFAULTS.get(one.switch)
        if one.switch and values[one.switch] == off and value != one.default:
            raise InvalidInputError(
                f"{one.name} is {value!r} with {one.switch} {off}, where it does nothing; "
                f"{one.switched_on}, or leave {one.name} out"
            )


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
