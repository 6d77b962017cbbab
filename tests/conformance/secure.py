"""Write conformance/secure: private rounds, to the last byte.

``rounds`` are whole rounds of small groups with fixed secrets and a device that is gone after it
dealt: each device's change, and all messages down and up. The rest are their parts: keystreams,
boxes, agreements, keys and marks, what a round secret draws, shares, commitments to them, rings,
bindings, encodings, tables of noise, costs, certificates, replies of devices that are ready, with
the private key that looks at them, ledgers and states as they are kept, and ``answers``: what a
device that stands somewhere in a round makes of a body, sound or damaged.
"""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pocketquery.client.local_config import LocalConfig
from pocketquery.client.private.binding import Privacy, settings_digest
from pocketquery.client.private.commitments import commitments
from pocketquery.client.private.keys import (
    AgreementKey,
    Certificate,
    RoundSecret,
    box_label,
    check_certificate,
    derive,
    mark,
    mask_label,
    sign_certificate,
)
from pocketquery.client.private.ledger import Ledger
from pocketquery.client.private.masks import Keystream, neighbours
from pocketquery.client.private.sharing import MODULUS, split
from pocketquery.sdk.files import sha256_bytes
from tests.client.private.group import (
    AUTHORITY,
    FEDERATION,
    NARROW,
    NOW,
    OFFER,
    PUBLIC,
    binding_of,
    drawn,
    member,
)
from tests.conformance.secure_bodies import NOISY, announcements, bindings, outcome, text_of
from tests.conformance.secure_numbers import costs, encodings, noise_tables
from tests.conformance.secure_rounds import answers, ready_devices, rounds

__all__ = ["TARGET", "main", "readings"]

TARGET = Path(__file__).parents[2] / "conformance" / "secure" / "secure.json.gz"


def main() -> None:
    """Write everything anew."""
    found = {name: list(cases()) for name, cases in _CASES.items()}
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(found, ensure_ascii=True, separators=(",", ":"))
    TARGET.write_bytes(gzip.compress(text.encode(), mtime=0))
    print({name: len(cases) for name, cases in found.items()})


def readings(name: str) -> list[Any]:
    """What Python makes of one part now, to be compared with what is in the file."""
    found: list[Any] = json.loads(json.dumps(list(_CASES[name]())))
    return found


def _keystreams() -> Iterator[dict[str, Any]]:
    # The first is the test vector 1 of RFC 8439, appendix A.1.
    for key, reads in ((bytes(32), [64]), (drawn(1), [1, 63, 65, 200, 0, 7]), (drawn(2), [20_000])):
        stream = Keystream(key)
        pieces = [stream.read(size) for size in reads]
        joined = b"".join(pieces)
        made = {"key": key.hex(), "reads": reads, "sha256": sha256_bytes(joined)}
        yield made | ({"bytes": joined.hex()} if len(joined) < 1000 else {})


def _boxes() -> Iterator[dict[str, Any]]:
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    for size in (0, 1, 16, 96, 97):
        key, content, beside = drawn("key", size), bytes(range(size)), drawn("beside", size)
        box = ChaCha20Poly1305(key).encrypt(bytes(12), content, beside)
        case = {"key": key.hex(), "content": content.hex(), "beside": beside.hex()}
        yield case | {"box": box.hex()}
        for at in {0, size // 2, len(box) - 1}:
            damaged = box[:at] + bytes([box[at] ^ 1]) + box[at + 1 :]
            yield case | {"box": damaged.hex(), "error": "CorruptArtifactError"}
        yield case | {"box": box[:-1].hex(), "error": "CorruptArtifactError"}
        yield case | {"box": box[:15].hex(), "error": "CorruptArtifactError"}


def _agreements() -> Iterator[dict[str, Any]]:
    field = 2**255 - 19
    others = [AgreementKey(drawn("other", n)).public for n in range(3)]
    strange = [0, 1, field - 1, field, field + 9, 2**255 + 9, 2**256 - 1]
    others += [value.to_bytes(32, "little") for value in strange]
    others += [bytes.fromhex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800")]
    others += [bytes.fromhex("5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157")]
    others += [b"", bytes(31), bytes(33)]
    for number, other in enumerate(others):
        key = AgreementKey(drawn("own", number))
        made = {"private": key.private.hex(), "public": key.public.hex(), "other": other.hex()}
        yield made | outcome(lambda key=key, other=other: key.agree(other).hex())  # type: ignore[misc]


def _keys() -> Iterator[dict[str, Any]]:
    for number in range(4):
        secret, beta, one, two = (drawn(name, number) for name in ("s", "beta", "1", "2"))
        yield {
            "secret": secret.hex(),
            "beta": beta.hex(),
            "sender": one.hex(),
            "receiver": two.hex(),
            "box": derive(secret, box_label(beta, one, two)).hex(),
            "mask": derive(secret, mask_label(beta)).hex(),
            "mark": mark(secret, beta).hex(),
        }


def _secrets() -> Iterator[dict[str, Any]]:
    for number in range(3):
        secret, beta = drawn("round", number), drawn("beta", number)
        made = RoundSecret(secret)
        yield {
            "secret": secret.hex(),
            "beta": beta.hex(),
            "self_seed": made.self_seed(beta).hex(),
            "mask_private": made.mask_key(beta).private.hex(),
            "mask_public": made.mask_key(beta).public.hex(),
            "self": [str(made.coefficient(beta, "self", n)) for n in range(1, 6)],
            "mask": [str(made.coefficient(beta, "mask", n)) for n in range(1, 6)],
            "coins": made.coins(beta).read(40).hex(),
            "noise": made.noise_stream(beta).read(40).hex(),
        }


def _shares() -> Iterator[dict[str, Any]]:
    def case(secret: bytes, threshold: int, coefficients: list[int], count: int) -> dict[str, Any]:
        work = lambda: [s.hex() for s in split(secret, threshold, coefficients, count)]  # noqa: E731
        return {
            "secret": secret.hex(),
            "threshold": threshold,
            "coefficients": [str(one) for one in coefficients],
            "count": count,
        } | outcome(work)

    for threshold, count in ((1, 1), (1, 4), (2, 2), (3, 5), (51, 84)):
        values = [
            int.from_bytes(drawn(threshold, n), "big") % MODULUS for n in range(threshold - 1)
        ]
        yield case(drawn("secret", threshold), threshold, values, count)
    yield case((MODULUS - 1).to_bytes(32, "little"), 2, [MODULUS - 1], 3)
    for secret, threshold, coefficients, count in (
        (MODULUS.to_bytes(32, "little"), 2, [1], 3),
        (bytes(31), 2, [1], 3),
        (bytes(32), 2, [MODULUS], 3),
        (bytes(32), 2, [-1], 3),
        (bytes(32), 2, [], 3),
        (bytes(32), 0, [], 3),
        (bytes(32), 4, [1, 1, 1], 3),
    ):
        yield case(secret, threshold, coefficients, count)


def _commitments() -> Iterator[dict[str, Any]]:
    for dealer, neighbour in ((0, 1), (1, 0), (2**17, 84)):
        beta, *pair = (drawn(name, dealer) for name in ("beta", "self", "mask"))
        yield {
            "beta": beta.hex(),
            "dealer": dealer,
            "neighbour": neighbour,
            "self": pair[0].hex(),
            "mask": pair[1].hex(),
            "commitments": commitments(beta, dealer, neighbour, *pair).hex(),
        }


def _rings() -> Iterator[dict[str, Any]]:
    for size, degree in ((2, 1), (3, 2), (9, 8), (9, 4), (100, 84), (1000, 84), (3001, 2)):
        seed = drawn("ring", size, degree)
        ring = neighbours(seed, size, degree)
        for position in {0, size // 2, size - 1}:
            where = {"size": size, "degree": degree, "position": position}
            yield {"seed": seed.hex()} | where | {"near": list(ring[position])}


def _certificates() -> Iterator[dict[str, Any]]:
    key = AgreementKey(drawn("certified"))
    expiry = int(NOW) + 1000
    sound = sign_certificate(AUTHORITY, FEDERATION, key.public, expiry)
    elsewhere = sign_certificate(AUTHORITY, bytes(16), key.public, expiry)
    forged = sign_certificate(bytes(32), FEDERATION, key.public, expiry)
    later = replace(sound, expiry=expiry + 1)
    for certificate in (sound, elsewhere, forged, later, replace(sound, key=bytes(32))):
        for now in (NOW, NOW + 999.5, NOW + 1000):
            data = certificate.to_bytes()

            def work(data: bytes = data, now: float = now) -> None:
                check_certificate(Certificate.parse(data), PUBLIC, FEDERATION, now)

            yield {"data": data.hex(), "now": now} | outcome(work)
    for data in (b"", sound.to_bytes()[:-1], sound.to_bytes() + b"0"):
        yield {"data": data.hex(), "now": NOW} | outcome(lambda data=data: Certificate.parse(data))  # type: ignore[misc]


def _settings() -> Iterator[dict[str, Any]]:
    for config in (
        LocalConfig(),
        LocalConfig(steps=5, heavy_views=("typo", "unfinished"), learning_rate=1e-5),
        LocalConfig(hybrid_loss_weight=0.5, hybrid_sharpness=0.25),
        LocalConfig(weight_decay=0, anchor_weight=1, epsilon=1e-10, limits=LocalConfig().limits),
    ):
        text = json.dumps(config.to_dict())
        yield {"local": text, "sha256": settings_digest(LocalConfig.from_dict(json.loads(text)))}


def _ledgers() -> Iterator[dict[str, Any]]:
    members = [member(number) for number in range(3)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "privacy.json"
        ledger = Ledger(path)
        for number, privacy in enumerate(
            (Privacy(), NOISY, replace(NOISY, season="summer"), Privacy("devices", 3.0, 2, "s", 1))
        ):
            offer = replace(OFFER, round=7 + number)
            binding = binding_of(members, 2, 2, encoding=NARROW, privacy=privacy, offer=offer)
            if number == 3:
                binding = replace(binding, federation=bytes(16))
            ledger.begin(binding)
            begun = path.read_bytes()
            ledger.charge(binding)
            yield {
                "binding": binding.to_bytes().decode(),
                "begun": begun.decode(),
                "charged": path.read_text(),
            }
        whole = path.read_bytes()
    for at in range(0, len(whole), 53):
        damaged = whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
        yield {"file": text_of(damaged), "error": "CorruptArtifactError"}


_CASES: Mapping[str, Callable[[], Iterator[Any]]] = {
    "keystreams": _keystreams,
    "boxes": _boxes,
    "agreements": _agreements,
    "keys": _keys,
    "secrets": _secrets,
    "shares": _shares,
    "commitments": _commitments,
    "rings": _rings,
    "bindings": bindings,
    "announcements": announcements,
    "encodings": encodings,
    "tables": noise_tables,
    "costs": costs,
    "certificates": _certificates,
    "settings": _settings,
    "ledgers": _ledgers,
    "ready": ready_devices,
    "rounds": rounds,
    "answers": answers,
}


if __name__ == "__main__":
    main()
