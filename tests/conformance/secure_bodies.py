"""Write conformance/secure: bindings and announcements, sound and damaged; see secure.py."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from typing import Any

from pocketquery.client.private.binding import Binding, Privacy
from pocketquery.client.private.messages import Announcement
from pocketquery.sdk.errors import PocketQueryError
from tests.client.private.group import NARROW, announce, binding_of, member

__all__ = ["NOISY", "announcements", "bindings", "outcome", "text_of"]

NOISY = Privacy("devices", 2.4, 4, "spring-2026", 1)


def text_of(data: bytes) -> str:
    """Base 64."""
    return base64.b64encode(data).decode()


def outcome(work: Callable[[], Any]) -> dict[str, Any]:
    """The class of the error that ``work`` raises, or what it returns."""
    try:
        return {"found": work()}
    except PocketQueryError as error:
        return {"error": type(error).__name__}


def _read(binding: Binding) -> dict[str, Any]:
    """What is compared of a binding."""
    return {
        "digest": binding.digest.hex(),
        "round": binding.round,
        "size": binding.size,
        "neighbours": binding.neighbours,
        "threshold": binding.threshold,
        "encoding": asdict(binding.encoding),
        "privacy": asdict(binding.privacy),
        "expiry": binding.expiry,
    }


def bindings() -> Iterator[dict[str, Any]]:
    """Of a group of seven, and what is none."""
    members = [member(number) for number in range(7)]
    sound = binding_of(members, 4, 3, encoding=NARROW, privacy=NOISY)
    whole = sound.to_bytes()

    def case(data: bytes) -> dict[str, Any]:
        return {"data": text_of(data)} | outcome(lambda: _read(Binding.parse(data)))

    def changed(path: str, *value: Any) -> bytes:
        message = json.loads(whole)
        *way, name = path.split("/")
        place = message
        for step in way:
            place = place[step]
        del place[name]
        if value:
            place[name] = value[0]
        return json.dumps(message, sort_keys=True, separators=(",", ":")).encode()

    yield case(whole)
    for binding in (
        replace(sound, privacy=Privacy()),
        replace(sound, neighbours=6, threshold=6),
        replace(sound, privacy=Privacy("devices", 3.0, 2, '"season"\\', 9)),
        replace(sound, privacy=replace(NOISY, noise_multiplier=1e6)),
        replace(sound, encoding=replace(NARROW, range=1, clip=2)),
        replace(sound, encoding=replace(NARROW, range=1e-7, clip=1e12)),
        replace(sound, round=2**53 - 1, expiry=2**32 - 1),
    ):
        yield case(binding.to_bytes())
    wrong: tuple[Any, ...] = (None, True, -1, 0, 1.0, 1.5, 1e300, "", "aB" * 16, [], {}, "00" * 40)
    found = json.loads(whole)
    paths = [
        *found,
        *(f"{part}/{name}" for part in ("encoding", "privacy") for name in found[part]),
    ]
    for path in paths:
        yield case(changed(path))
        for value in wrong:
            yield case(changed(path, value))
    for path, value in (
        ("neighbours", 3), ("neighbours", 8), ("threshold", 5), ("size", 1), ("size", 100_001),
        ("encoding/bits", 8), ("encoding/exponent", 41), ("encoding/exponent", 17), ("more", 1),
        ("encoding/more", 1), ("privacy/more", 1), ("privacy/mode", "some"), ("expiry", 2**32),
        ("privacy/noise_multiplier", 0.009), ("privacy/season", "é"), ("privacy/season", "a" * 65),
        ("privacy/season", "a b"), ("protocol", "pocketquery-secure-2"), ("round", 2**70),
    ):  # fmt: skip
        yield case(
            changed(path, value)
            if path in paths
            else json.dumps(
                json.loads(whole) | {"more": 1}
                if "/" not in path
                else found | {path.split("/")[0]: found[path.split("/")[0]] | {"more": 1}},
                sort_keys=True,
                separators=(",", ":"),
            ).encode()
        )
    for cut in range(0, len(whole), 31):
        yield case(whole[:cut])
        yield case(whole[:cut] + b" " + whole[cut:])
        yield case(whole[:cut] + b"\xff" + whole[cut + 1 :])
    for text in (b"", b"[]", b"null", b"{}", b"[" * 5000, b" " * 5000 + whole, whole + b"\n"):
        yield case(text)
    yield case(whole.replace(b'"bits":16', b'"bits":16,"bits":16'))
    yield case(whole.replace(b"2.4", b"2.40"))
    yield case(whole.replace(b"2.4", b"1e400"))
    yield case(whole.replace(b'"round":7', b'"round":-0'))
    yield case(whole.replace(b'"round":7', b'"round":07'))
    yield case(whole.replace(b'"round":7', b'"round":NaN'))


def announcements() -> Iterator[dict[str, Any]]:
    """With every mode, cut and changed."""

    def case(data: bytes) -> dict[str, Any]:
        def work() -> Any:
            said = Announcement.parse(data)
            federation, key = said.federation.hex(), said.key.hex()
            return {"federation": federation, "key": key, "privacy": asdict(said.privacy)}

        return {"data": data.hex()} | outcome(work)

    kinds = [Privacy(), NOISY, Privacy("devices", 3.0, 2, "s", 9)]
    for privacy in kinds:
        whole = announce(privacy)
        yield case(whole)
        for cut in range(0, len(whole), 3):
            yield case(whole[:cut])
        for at in range(16, len(whole)):
            for bit in (1, 0x80):
                yield case(whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :])
    yield case(announce(NOISY) + b"a" * 60)
    yield case(announce(NOISY) + b"\xc3\xa9")
    yield case(announce(NOISY)[:61] + b"\x7f\xf8" + bytes(6) + b"s")
    field = 2**255 - 19
    for strange in (0, 1, field - 1, field, field + 9, 2**255 + 9, 2**256 - 1):
        key = strange.to_bytes(32, "little")
        yield case(announce(NOISY)[:16] + key + announce(NOISY)[48:])
