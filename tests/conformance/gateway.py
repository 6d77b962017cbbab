"""Write conformance/gateway: what a device and its gateway say to each other, to the last byte.

``updates`` are changes with the bytes and the residual that come of them, ``norms`` those of
:func:`reciprocals` of so many values, to the last bit, ``requests`` signed requests, ``offers``
what a device reads of an offer, ``limits`` what it makes of one, ``memories`` what it keeps between
rounds; what must be refused has the class of the error.
"""

from __future__ import annotations

import base64
import gzip
import json
import math
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pocketquery.client.gateway.messages import offer_message, read_offer_message
from pocketquery.client.gateway.signing import signed_headers
from pocketquery.client.local_config import LocalConfig
from pocketquery.client.offer import Offer
from pocketquery.client.offer_limits import OfferLimits
from pocketquery.client.round_memory import ClientState, RoundMemory
from pocketquery.client.training.monitors import MonitorLimits
from pocketquery.client.transforms import norm_of
from pocketquery.client.update import UpdateHeader, bounded_weight, encode_update
from pocketquery.sdk.errors import PocketQueryError
from pocketquery.sdk.files import sha256_bytes

__all__ = ["TARGET", "encoded", "main", "reciprocals", "refusal", "unpacked"]

TARGET = Path(__file__).parents[2] / "conformance" / "gateway" / "gateway.json.gz"
Tensors = dict[str, NDArray[np.float32]]
HEADER = UpdateHeader(
    space_id="space-0",
    encoder_sha256="ab" * 32,
    base_version="2026-11",
    round=7,
    nonce="0123456789abcdef" * 2,
    weight=16.0,
)
SIZES = [
    *([size] for size in (0, 1, 5, 7, 8, 9, 13, 100, 127, 128, 129, 136, 137, 255, 1000, 9001)),
    [9001, 1, 300, 77, 5000, 2],
    [20_000, 30_001],
]
WRONG: list[Any] = [None, True, -1, 1.5, 1e300, "", "four", [], ["four"], {}]
LONGEST = 600  # values; of more, their SHA-256 is enough


def main() -> None:
    """Write everything anew."""
    found: dict[str, list[Any]] = {
        "updates": list(_updates()),
        "norms": [[sizes, norm_of(reciprocals(*sizes))] for sizes in SIZES],
        "weights": [[number, bounded_weight(1, number)] for number in (0.5, 1.0, 256.0)],
        "requests": list(_requests()),
        "offers": list(_offers()),
        "limits": list(_limits()),
        "memories": list(_memories()),
    }
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(found, ensure_ascii=True, separators=(",", ":"))
    TARGET.write_bytes(gzip.compress(text.encode(), mtime=0))
    print({name: len(cases) for name, cases in found.items()})


def reciprocals(*sizes: int) -> Tensors:
    """Tensors of so many values whose squares no order of summing adds to the same bits."""
    return {
        str(place): (1.0 / (3 + np.arange(size) * 7919 % 10_007)).astype(np.float32)
        for place, size in enumerate(sizes)
    }


def packed(tensors: Mapping[str, NDArray[np.float32]]) -> dict[str, Any]:
    """Float32 tensors as JSON."""
    return {
        name: {"shape": list(value.shape), "data": _base64(value.astype("<f4").tobytes())}
        for name, value in tensors.items()
    }


def unpacked(tensors: Mapping[str, Any]) -> Tensors:
    """What :func:`packed` packed."""
    return {
        name: np.frombuffer(base64.b64decode(one["data"]), "<f4")
        .astype(np.float32)
        .reshape(one["shape"])
        for name, one in tensors.items()
    }


def encoded(case: Mapping[str, Any]) -> tuple[bytes, Tensors]:
    """What Python makes of a case of ``updates``."""
    return encode_update(
        unpacked(case["change"]),
        header=UpdateHeader(**case["header"]),
        clip_norm=case["clip_norm"],
        residual=None if case["residual"] is None else unpacked(case["residual"]),
        compress=case["compress"],
    )


def refusal(case: Mapping[str, Any]) -> str | None:
    """What Python's limits say of a case of ``limits``: the setting that is beyond one."""
    config = LocalConfig.from_dict(case["local"])
    limits = OfferLimits(**case["limits"])
    reason = limits.refusal(config, case["clip_norm"], case["queries"])
    return None if reason is None else reason.partition(":")[0].partition(" has ")[0]


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _updates() -> Iterator[dict[str, Any]]:
    rng = np.random.default_rng(20261122)

    def drawn(*shape: int, scale: float = 0.01) -> NDArray[np.float32]:
        return (scale * rng.standard_normal(shape)).astype(np.float32)

    def case(name: str, change: Tensors, **options: Any) -> dict[str, Any]:
        header = asdict(HEADER) | options.pop("header", {})
        made: dict[str, Any] = {
            "name": name,
            "change": packed(change),
            "header": header,
            "clip_norm": 1.0,
            "residual": None,
            "compress": True,
        }
        made |= options
        try:
            data, residual = encoded(made)
        except PocketQueryError as error:
            return made | {"error": type(error).__name__}
        small = sum(value.size for value in change.values()) <= LONGEST
        kept = {"data": _base64(data), "lost": packed(residual)} if small else {}
        lost = sha256_bytes(b"".join(residual[name].tobytes() for name in sorted(residual)))
        return made | kept | {"sha256": sha256_bytes(data), "lost_sha256": lost}

    # Sums of numpy's go by blocks of 8 and 128 values.
    for size in (0, 1, 5, 7, 8, 9, 15, 16, 127, 128, 129, 136, 255, 257, 300):
        yield case(f"{size} values", {"a": drawn(size)}, clip_norm=0.02)
    for shape in ((3, 7), (16, 24), (4, 5, 6), (1, 1), (2, 0)):
        yield case(f"shape {shape}", {"a": drawn(*shape)}, clip_norm=0.05)
    several = {"lora.b": drawn(8, 12), "lora.A": drawn(12, 8), "é": drawn(3), "𝟡": drawn(5)}
    for clip_norm in (0.001, 0.1, 0.3, 1.0, 2.5):
        yield case(f"several, at most {clip_norm}", several, clip_norm=clip_norm)
    left = {name: drawn(*value.shape, scale=1e-4) for name, value in several.items()}
    for clip_norm in (0.05, 1.0):
        yield case("with a residual", several, clip_norm=clip_norm, residual=packed(left))
    yield case("large", {"a": drawn(30, 40), "b": drawn(9001)}, clip_norm=0.5)
    yield case("as it is", several, clip_norm=0.1, compress=False)
    yield case("as it is, with a residual", several, compress=False, residual=packed(left))
    for name, values in (
        ("zeros", [0.0, 0.0]),
        ("a zero below 0", [-0.0, 1.0]),
        ("the smallest", [1e-45, 1e-44]),
        ("small", [1e-38, -3e-39]),
        ("large numbers", [3e38, -3e38, 1.0]),
        ("halves", [127.0, 0.5, 1.5, 2.5, -0.5, -1.5, -126.5]),
        ("all alike", [0.3] * 200),
    ):
        for clip_norm in (1.0, 1e9):
            value = np.array(values, np.float32)
            yield case(name, {"a": value}, clip_norm=clip_norm)
    for weight in (1.0, 0.1, 1e-5, 1.5e-7, 256.0, 1e16, 1e22, 12345.678, 2 / 3):
        yield case(f"weight {weight!r}", {"a": drawn(2)}, header={"weight": weight})
    yield case("other texts", {"a": drawn(2)}, header={"base_version": 'é"\\\u2028', "round": 0})
    yield case("no tensor", {})
    yield case("a reserved name", {"__scales__": drawn(2)})
    yield case("a residual of others", several, residual=packed({"a": drawn(2)}))
    other = {**left, "é": drawn(4)}
    yield case("a residual of another shape", several, residual=packed(other))
    for number in (math.nan, math.inf, -math.inf):
        yield case(f"{number}", {"a": np.array([1, number], np.float32)})
    for clip_norm in (0.0, -1.0):
        yield case(f"clip_norm {clip_norm}", several, clip_norm=clip_norm)
    for name, wrong in (("nonce", "AB" * 16), ("nonce", ""), ("round", -1), ("weight", 0.0)):
        yield case(f"{name} {wrong!r}", several, header={name: wrong})


def _requests() -> Iterator[dict[str, Any]]:
    bodies = (b"", b"{}", bytes(range(256)))
    for number, (method, path) in enumerate(
        (
            ("GET", "/v1/offer"),
            ("PUT", "/v1/device"),
            ("PUT", "/v1/rounds/3/update"),
            ("PUT", "/v1/rounds/999999999/declined"),
            ("DELETE", "/v1/device"),
        )
    ):
        for figures in (None, '{"loss": 0.41}', '{"loss":0.41,"drift":-1e-05}'):
            key = bytes([number + 1]) * 32
            asked = {
                "key": key.hex(),
                "method": method,
                "authority": ("gateway.example.org", "Gateway.Example.org:8443", "[::1]:80")[
                    number % 3
                ],
                "path": path,
                "body": _base64(bodies[number % 3]),
                "created": 1_780_000_000 + number,
                "nonce": bytes(range(number, number + 16)).hex(),
                "figures": figures,
            }
            headers = signed_headers(
                key,
                method,
                str(asked["authority"]),
                path,
                bodies[number % 3],
                created=1_780_000_000 + number,
                nonce=bytes(range(number, number + 16)),
                figures=figures,
            )
            yield asked | {"headers": headers}


def _offer(**changes: Any) -> Offer:
    settings: dict[str, Any] = {
        "round": 3,
        "release": b"a release",
        "config": LocalConfig(steps=5, heavy_views=("typo", "unfinished"), client_init="ema"),
        "clip_norm": 1.25,
        "lineage": b'{"a statement"}\n',
    }
    return Offer(**settings | changes)


def _offers() -> Iterator[dict[str, Any]]:
    from pocketquery.client.private.binding import settings_digest  # it takes cryptography

    sound: dict[str, Any] = offer_message(_offer(), 0)
    whole = json.dumps(sound).encode()

    def changed(path: str, *value: Any) -> bytes:
        """The sound message with the value at ``path`` replaced, or left out."""
        message = json.loads(whole)
        *way, name = path.split("/")
        place = message
        for step in way:
            place = place[step]
        del place[name]
        if value:
            place[name] = value[0]
        return json.dumps(message).encode()

    def case(name: str, data: bytes) -> dict[str, Any]:
        made: dict[str, Any] = {"name": name, "data": _base64(data)}
        try:
            offer, wait = read_offer_message(data)
        except PocketQueryError as error:
            kind = "InvalidInputError" if isinstance(error, ValueError) else type(error).__name__
            number = getattr(error, "round", None)
            return made | {"error": kind, "round": number}
        made["retry_after"] = wait
        if offer is None:
            return made | {"offer": None}
        return made | {
            "offer": {
                "round": offer.round,
                "release": offer.release_sha256,
                "clip_norm": offer.clip_norm,
                "largest_weight": offer.largest_weight,
                "compress": offer.compress,
                "announcement": _base64(offer.announcement),
                "settings": settings_digest(offer.config) if _is_whole(data) else None,
                "lineage": _base64(offer.lineage),
                "local": asdict(offer.config),
            }
        }

    yield case("sound", whole)
    taught = LocalConfig(hybrid_loss_weight=0.5, hybrid_candidates=20)
    for name, config in (("taught by the index", taught), ("the defaults", LocalConfig())):
        yield case(name, json.dumps(offer_message(_offer(config=config), 86_400)).encode())
    yield case("a private round", json.dumps(offer_message(_offer(announcement=b"a"), 0)).encode())
    yield case("none", b'{"offer": null, "retry_after": 60}')
    yield case("none, and no time", b'{"offer": null}')
    yield case("nothing said of an offer", b'{"retry_after": 60}')
    yield case(
        "more than is known", json.dumps(sound | {"offer": sound["offer"] | {"x": 1}}).encode()
    )
    for path, values in (
        ("offer/format", ("pocketquery-update", "")),
        ("offer/version", ("0", "2", 1)),
        ("offer/announcement", ("", "YQ==", "YQ", "Y Q==", "é")),
        (
            "offer/release",
            ("ab" * 31, "AB" * 32, {"version": "4", "sha256": "ab" * 32, "bytes": 9}),
        ),
    ):
        for value in values:
            yield case(f"{path}: {json.dumps(value)}", changed(path, value))
    before = {"round": 3, "release": {"version": "4", "sha256": "ab" * 32, "bytes": 9}}
    yield case("an offer of before", json.dumps({"offer": before, "retry_after": 0}).encode())
    paths = [
        "retry_after",
        *(f"offer/{name}" for name in sound["offer"]),
        *(f"offer/local/{name}" for name in sound["offer"]["local"]),
        *(f"offer/local/limits/{name}" for name in asdict(MonitorLimits())),
    ]
    for path in paths:
        yield case(f"without {path}", changed(path))
        for value in WRONG:
            if path == "offer" and value is None:
                continue
            yield case(f"{path}: {json.dumps(value)}", changed(path, value))
    for name, number in (("steps", 5.0), ("steps", 10_001), ("learning_rate", 0), ("epsilon", 0)):
        yield case(f"local/{name}: {number!r}", changed(f"offer/local/{name}", number))
    for lineage in ("YQ", "YWI", "Y Q==", "é", "####"):
        yield case(f"lineage {lineage}", changed("offer/lineage", lineage))
    yield case("an unknown setting", changed("offer/local/limits", {"drift": 0.1, "more": 1}))
    yield case("heavy among the light", changed("offer/local/light_views", ["typo"]))
    yield case("33 views", changed("offer/local/heavy_views", ["typo"] * 33))
    for cut in range(0, len(whole), 97):
        yield case(f"its first {cut} bytes", whole[:cut])
    for at in range(5, len(whole), 61):
        yield case(f"byte {at} changed", whole[:at] + b"\xff" + whole[at + 1 :])
    for text in (b"[]", b"null", b"{}", b'{"offer": 3, "retry_after": 0}', b"[" * 100_000):
        yield case(f"{text[:40]!r}", text)
    yield case("a key twice", whole.replace(b'"round"', b'"clip_norm": 1, "round"'))
    yield case("too long", b" " * (1 << 20) + whole)


def _is_whole(data: bytes) -> bool:
    """Whether an offer names every setting, as gateways write them."""
    local = json.loads(data)["offer"]["local"]
    known = LocalConfig.from_dict(local).to_dict()
    return set(local) == set(known) and set(local["limits"]) == set(known["limits"])


def _limits() -> Iterator[dict[str, Any]]:
    def case(name: str, *, queries: int = 64, clip_norm: float = 1.0, **changes: Any) -> Any:
        limits = changes.pop("limits_of_the_device", {})
        monitors = asdict(MonitorLimits()) | changes.pop("limits", {})
        local = asdict(LocalConfig()) | changes | {"limits": monitors}
        made = {
            "name": name,
            "local": json.loads(json.dumps(local)),
            "clip_norm": clip_norm,
            "queries": queries,
            "limits": limits,
        }
        return made | {"refusal": refusal(made)}

    yield case("the defaults")
    for queries in (0, 1, 15, 16, 31, 32, 1000):
        yield case(f"{queries} queries", queries=queries)
    bounds: dict[str, tuple[Any, ...]] = {
        "steps": (4, 5, 40, 41, 100, 101),
        "batch_size": (15, 16, 64, 65),
        "temperature": (0.019, 0.02),
        "learning_rate": (0.01, 0.011),
        "weight_decay": (0.1, 0.11),
        "proximal": (0.1, 0.11),
        "opened_loss_weight": (1.0, 1.1),
        "hybrid_loss_weight": (1.0, 1.1),
        "typo_rate": (0.019, 0.02),
        "clip_norm": (2.0, 2.01, 0.0),
        "heavy_views": (["noise_case"], ["typo", "dropout_view"], ["unfinished"]),
        "limits": ({"drift": 0.21}, {"rank_kept": 0.49}, {"spread_kept": 0.49}),
    }
    for name, values in bounds.items():
        for value in values:
            yield case(f"{name} {value}", **{name: value})
    own: list[dict[str, float]] = [
        {"least_queries": 65},
        {"least_typo_rate": 0.0},
        {"most_repetitions": 2},
        {"largest_clip": 0.5},
    ]
    for limits in own:
        yield case(f"{limits}", limits_of_the_device=limits, heavy_views=["noise_case"])


def _memories() -> Iterator[dict[str, Any]]:
    rng = np.random.default_rng(7)
    secret = bytes(range(32))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rounds.safetensors"
        memory = RoundMemory(path, secret=secret)
        memory.attach("an epoch")
        for number in range(3):
            round_key = f"{'ab' * 32} 4 {number}"
            left = {"lora.a": rng.standard_normal((2, 3)).astype(np.float32)}
            made = {
                "round_key": round_key,
                "nonce": memory.nonce(round_key),
                "seed": str(memory.seed(round_key)),
            }
            memory.keep(round_key, ClientState(left, left if number == 2 else {}))
            state = memory.recall(round_key)
            yield made | {
                "file": _base64(path.read_bytes()),
                "secret": secret.hex(),
                "epoch": "an epoch",
                "before": packed(state.residual),
                "after": packed(left),
                "adapter": packed(left if number == 2 else {}),
            }
        whole = path.read_bytes()
    for at in range(0, len(whole), 41):
        damaged = whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
        yield {"file": _base64(damaged), "error": "CorruptArtifactError"}


if __name__ == "__main__":
    main()
