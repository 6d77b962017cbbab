"""What may be said of private rounds, and nothing beyond it: sentences of the officer's page.

Each promise names what it needs: a share of colluding neighbours, someone else who enrols device
keys, noise with its epsilon, delta, unit and season. docs/privacy.md repeats them word for word,
and a test holds both, the README and the report to it.
"""

from __future__ import annotations

from pocketquery.server.private.accounting import Adversary
from pocketquery.server.private.budget import Season
from pocketquery.server.private.report.page import EXPERIMENTAL, rounded_up
from pocketquery.server.private.settings import SecureSettings

__all__ = [
    "COLUMNS",
    "NOT_PROMISED",
    "NOT_REVIEWED",
    "STORED",
    "WHO_SEES_WHAT",
    "WITHDRAWING",
    "column_of",
    "promises",
]


COLUMNS = ("plain", "plain, TLS", "secure sums", "noise by devices")

_SUMS = "no: sums of at least <i>least</i> devices"
_DEVIATING = "no: no sum of fewer than t − c + 1 honest devices, if keys are enrolled by others"

# Who and what, then an answer a column; <i> marks settings.
WHO_SEES_WHAT: tuple[tuple[str, ...], ...] = (
    ("Somebody on the network reads or alters traffic", "yes", "no", "no", "no"),
    (
        "The server, following the protocol, sees one device's change",
        "<b>yes</b>",
        "<b>yes</b>",
        _SUMS,
        "no; and the sum itself is (ε, δ)-differentially private",
    ),
    (
        "A server that deviates sees one device's change",
        "yes",
        "yes",
        _DEVIATING,
        "the same, and ε of adversary M against what it does see",
    ),
    (
        "A server that deviates sends each device another model",
        "possible",
        "possible",
        "masks do not cancel: the sum is noise",
        "the same",
    ),
    (
        "Whoever gets releases learns what a device held",
        "possible",
        "possible",
        "possible: of small sums well, of large ones weakly",
        "bounded by (ε, δ)",
    ),
    (
        "Hostile devices poison the mean",
        "validation, norm bound, shards, gate",
        "the same",
        "weaker: single changes cannot be looked at",
        "weaker",
    ),
    (
        "The server sees that a device took part, when and how often",
        "yes",
        "yes",
        "yes",
        "yes",
    ),
)

# What, where, until when.
STORED: tuple[tuple[str, str, str], ...] = (
    (
        "queries, and results that were opened",
        "the device, queries.sqlite",
        "the age and number the app set, which stand in the file; or until the user erases them or "
        "withdraws consent. They are not sent",
    ),
    (
        "what rounding cut off the last change, and with client-init ema the adapter it ended "
        "with; a secret for nonces",
        "the device, rounds.safetensors beside the store, readable by its owner alone",
        "it is as old as a query may get, or no query is left; or the queries are erased. It is "
        "not sent: it joins the next change",
    ),
    (
        "the change of a round, and the round's secret",
        "the device, beside the store, readable by its owner alone",
        "the masked change is made; or the round is given up, after a day at most; or the queries "
        "are erased",
    ),
    (
        "the masked change, shares of the neighbours' secrets",
        "the same file",
        "the device revealed its shares; or the round is given up, after a day at most",
    ),
    (
        "the device's key and certificate",
        "the device, device.key, readable by its owner alone",
        "the certificate expires (90 days by default)",
    ),
    (
        "the budget: participations, what was spent",
        "the device, privacy.json",
        "the app is deleted. It holds no query",
    ),
    (
        "whose signatures are required, the release in force, a secret for roll-outs",
        "the device, trusted-releases.sqlite, readable by its owner alone",
        "the app is deleted. It holds no query, and is not sent",
    ),
    (
        "a round's private key, with which its devices prove that they hold theirs",
        "the server's journal",
        "the round is closed or skipped; erased pages are overwritten",
    ),
    (
        "a gateway's private key for the same, one for all rounds",
        "the gateway's journal, readable by its owner alone",
        "the operator deletes the journal",
    ),
    (
        "encrypted boxes, marks",
        "the server's journal",
        "the stage is over that needs them",
    ),
    (
        "the masked sum of a group",
        "the server's journal; a single masked change is never written",
        "the round is closed or skipped",
    ),
    (
        "shares of the round's secrets, and hashes of them",
        "the server's journal",
        "the round is closed or skipped; erased pages are overwritten",
    ),
    (
        "what a gateway relays: messages of a stage, replies to it",
        "the gateway's journal; masked changes are in its memory alone",
        "the next stage begins; shares of secrets: the next round begins, the last is over, or its "
        "time is; erased pages are overwritten",
    ),
    (
        "counts of a round, the gate's findings, the ledger of ε",
        "the server's journal",
        "the operator deletes the journal",
    ),
    (
        "releases",
        "the registry, and every device",
        "the operator deletes them; a release keeps its share of what it was made of",
    ),
    (
        "messages under way",
        "Flower's SuperLink; run it with --database :flwr-in-memory:, or on an erasable volume",
        "they are delivered; its database deletes rows without overwriting them",
    ),
)

WITHDRAWING: tuple[str, ...] = (
    "Withdrawing consent on the device (QueryStore.withdraw_consent) erases the queries, and with "
    "them the change and the secret of a round that is under way. The device then declines rounds.",
    "A round whose masked change has been sent goes on with it: the server cannot take one "
    "change out of a sum. Nothing of it is kept once the round is closed.",
    "A release that was made before keeps its share of the sum. With noise, the bound (ε, δ) is "
    "what remains of it; without noise, nothing bounds it.",
    "The device's ledger stays, so that giving consent again does not begin a new budget.",
    "The authority that enrolled the device lets its certificate expire; other devices can pin its "
    "key as revoked.",
)

NOT_PROMISED: tuple[str, ...] = (
    "It stays visible that a device took part, with its node id and network address.",
    "The server, more than 40 % of a device's neighbours, or one device that sends garbage, can "
    "always spoil its group's round.",
    "Nothing helps against a compromised device, or a bundle that lies: who signs code decides.",
    "What several devices of one person hold adds up: ε is that of one device.",
    "Recorded rounds fall with X25519, should it be broken.",
    "A server that is also the enrolment authority can surround a device with its own; only the "
    "share of the noise that the device adds itself is left then.",
    "Secure sums without noise hide little: tests of membership on sums work, and the attack "
    "figures say how well.",
)

NOT_REVIEWED: tuple[str, ...] = (
    "No outside cryptographer has looked at the protocol's ready, held and confirm marks, its "
    "boxes under static keys, marks in the place of signatures, or the power of two as modulus.",
    "No outside party has looked at the code.",
    "The attacks are ours: another attacker may do better. Where noise is added, the bounds hold "
    "against every attacker.",
    "Expected losses were measured on one encoder and one kind of users.",
)

_QUERIES = "Queries are not sent; the change is computed on the device."


def column_of(secure: SecureSettings | None) -> tuple[int, ...]:
    """Which of :data:`COLUMNS` a configuration is; both plain ones where that is not known."""
    if secure is None:
        return (0, 1)
    return (3 if secure.is_noisy else 2,)


def promises(
    secure: SecureSettings | None,
    *,
    collusion: float,
    least_honest: int | None = None,
    season: Season | None = None,
    epsilon: dict[Adversary, float] | None = None,
) -> list[str]:
    """The sentences that may be said of a configuration.

    Args:
        secure: its settings; None for plain rounds.
        collusion: share of a device's neighbours that may collude, as devices enforce it.
        least_honest: t − c + 1 of its groups, where that is known.
        season: that epsilon is of.
        epsilon: of the season when it is over, by adversary.
    """
    if secure is None:
        return [
            _QUERIES,
            "The rounds are plain: the server sees the change of every device, and a change says "
            "much of the queries it was computed from (docs/federation.md).",
        ]
    said = [
        _QUERIES,
        "The server receives masked updates and learns only sums over at least "
        f"{secure.least} devices, if it follows the protocol and at most {collusion:.0%} of a "
        "device's neighbours collude with it.",
    ]
    if least_honest is not None:
        said.append(
            f"Even a server that deviates learns no sum over fewer than {least_honest} honest "
            "devices, provided device keys are enrolled by someone else."
        )
    if season is not None and epsilon is not None:
        said.append(
            "With noise on devices, a season gives every device (ε, δ) = "
            f"({rounded_up(epsilon['H'])}, {season.delta:g}) user-level zCDP-based DP against "
            "anyone who sees the sums or the releases, without relying on random sampling; the "
            f"device keeps its own budget and stops. {_unit(season)} Against a server that "
            f"deviates ε is {rounded_up(epsilon['M'])} at the same δ, for devices whose own limits "
            f"are noise-least {season.noise_multiplier:g}, neighbours {secure.neighbours} and "
            f"largest-group {secure.largest_group}."
        )
    return [*said, EXPERIMENTAL]


def _unit(season: Season) -> str:
    times = "once" if season.participations == 1 else f"{season.participations} times"
    return (
        f"The unit is all that one device contributes in the season {season.name!r}, of "
        f"{season.rounds} rounds, in which it takes part at most {times}."
    )
