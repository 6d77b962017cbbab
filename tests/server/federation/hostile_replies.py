"""What hostile devices send: a corpus of nasty cases, and seeded random damage to whole replies."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

from pocketquery.client.offer import Offer
from pocketquery.client.transforms import SCALES
from pocketquery.server.federation.orchestration.clock import VirtualClock
from pocketquery.server.federation.orchestration.exchange import Exchange
from pocketquery.server.federation.orchestration.journal import Journal
from pocketquery.server.federation.rounds.open_round import open_round
from pocketquery.server.federation.rounds.round import receive
from pocketquery_simulation.local_grid import LocalGrid
from tests.server.federation.chaos.lies import forged
from tests.server.federation.replies import SETTINGS, SHAPES, reply, small_state

MAGIC = b"\x93NUMPY"

# Each of these made numpy's header reader raise something else than it promises, or succeed with
# what is no array of ours.
NPY_HEADERS: tuple[bytes, ...] = (
    b"(",
    b"{1:2,'x':3}",
    b"{[]:1}",
    b"{'descr':",
    b"'" * 400,
    b"[" * 3000,
    b"-" * 9000,
    b"(" * 200 + b"1" + b")" * 200,
    b"\x00",
    b"\\",
    b"0" * 5000,
    b"1" * 5000,
    b"{'descr': '|u1', 'fortran_order': False, 'shape': (" + b"9" * 5000 + b",), }",
    b"{'descr': '|u1', 'fortran_order': False, 'shape': (-4,), }",
    b"{'descr': '|u1', 'fortran_order': True, 'shape': (4,), }\n",
    b"{'descr': '|u1', 'fortran_order': False, 'shape': (2, 2), }\n",
    b"{'descr': '|i1', 'fortran_order': False, 'shape': (4,), }\n",
    b"{'descr': '|O', 'fortran_order': False, 'shape': (4,), }\n",
    b"{'descr': [('a', '|u1')], 'fortran_order': False, 'shape': (4,), }\n",
    b"{'descr': '|u1', 'fortran_order': False, 'shape': (4,), 'shape': (4,), }\n",
    b"{'descr': '|u1', 'fortran_order': False, 'shape': (4L,), }\n",
    b"__import__('os').system('true')",
    b"\xff\xfe",
)


def npy(header: bytes, content: bytes = b"1234", version: bytes = b"\x01\x00") -> bytes:
    """A file of numpy's format with ``header`` as it is."""
    return MAGIC + version + len(header).to_bytes(2, "little") + header + content


def container(header: bytes, body: bytes = b"") -> bytes:
    """A safetensors file with ``header`` as it is."""
    return len(header).to_bytes(8, "little") + header + body


def tensor(shape: str, offsets: str = "[0,0]") -> bytes:
    """A safetensors file of one tensor whose shape and offsets are these JSON texts."""
    said = f'{{"a":{{"dtype":"I8","shape":{shape},"data_offsets":{offsets}}}}}'
    return container(said.encode())


def many(item: str, count: int) -> str:
    """A JSON list of ``count`` times ``item``."""
    return "[" + ",".join([item] * count) + "]"


BOMBS: tuple[bytes, ...] = (
    tensor(many("9" * 19, 400)),  # its product cannot be printed
    tensor(many("9" * 4000, 2)),
    tensor(many("9" * 4299, 1)),
    tensor("[" + "9" * 4301 + "]"),
    tensor(many("1", 65)),
    tensor(many("0", 100)),
    tensor(many(str(2**63 - 1), 64)),
    tensor("[1]", f"[0,{2**63}]"),
    tensor("[1]", f"[-{2**62},{2**62}]"),
    tensor("[1e3]"),
    tensor("[NaN]"),
    tensor("[1e999]"),
    *(
        container(b'{"a":' + b"[" * depth + b"]" * depth + b"}")
        for depth in (90, 300, 600, *range(800, 1000, 3), 5000)
    ),
    *(container(b'{"__metadata__":' + b'{"a":' * n + b"1" + b"}" * n + b"}") for n in (300, 940)),
    container(b'{"__metadata__":{"a":"\\ud800"}}'),
    container(b'{"\\ud800":1}'),
    container(b"9" * 5000),
)


def damage(rng: random.Random, data: bytes) -> bytes:
    """``data`` changed in one place or a few: flipped, cut, doubled, or with a nasty piece."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        place = rng.randrange(len(changed) + 1)
        # Most of what can go wrong is in the headers, most bytes are not.
        place = min(place, rng.choice((16, 80, 140, 400, len(changed))))
        end = min(len(changed), place + rng.choice((1, 1, 2, 8, 40)))
        match rng.randrange(6):
            case 0 if place < len(changed):
                changed[place] ^= 1 << rng.randrange(8)
            case 1:
                changed[place:end] = b""
            case 2:
                changed[place:place] = changed[place:end] * rng.choice((1, 2, 50))
            case 3:
                changed[place:end] = rng.randbytes(end - place)
            case 4:
                changed[place:end] = rng.choice(_PIECES)
            case _:
                changed = changed[:place] if rng.random() < 0.1 else changed
    return bytes(changed)


_PIECES = (
    b"(", b")", b"[", b"]", b"{", b"}", b"'", b'"', b",", b":", b"\\", b"\n", b"\x00", b"\xff",
    b"#", b"9" * 19, b"9" * 4400, b"-1", b"1e999", b"NaN", b"null", b"true", b"()", b"[]", b"{}",
    b"L", b"{1:2}", b"{[]:1}", b"[" * 500, b"(" * 500, b"\\ud800", b"__metadata__",
    b"__scales__", b"|O", b"BOOL", b"F64", b"U64", b"shape", b"nan", b"inf", b"\xe2\x80\xae",
)  # fmt: skip


def reply_of(message: Message, data: bytes, *, figures: MetricRecord | None = None) -> Message:
    """A device's message whose update array has ``data`` for its bytes."""
    array = Array("uint8", (len(data),), "numpy.ndarray", data)
    content = RecordDict({"update": ArrayRecord({"update": array})})
    content["figures"] = MetricRecord({"loss": 0.5}) if figures is None else figures
    return Message(content, reply_to=message)


def packed(update: bytes) -> bytes:
    """``update`` as an honest device's array holds it."""
    return Array(np.frombuffer(update, np.uint8)).data


def random_reply(rng: random.Random, message: Message) -> Message:
    """A reply that is wrong somewhere: in the update, its array, its records, its figures."""
    honest = reply(rng.randrange(1000), compress=rng.random() < 0.7)
    match rng.randrange(8):
        case 0 | 1:
            return reply_of(message, packed(damage(rng, honest)))
        case 2 | 3:
            return reply_of(message, packed(_random_tensors(rng, honest)))
        case 4:
            return reply_of(message, damage(rng, packed(honest)))
        case 5:
            return reply_of(message, npy(damage(rng, rng.choice(NPY_HEADERS))))
        case 6:
            return reply_of(message, packed(damage(rng, rng.choice(BOMBS))))
        case _:
            return Message(_random_records(rng, honest), reply_to=message)


def _random_tensors(rng: random.Random, honest: bytes) -> bytes:
    """A well-formed file with fields of the header, and sometimes a tensor, that are another's."""
    names = ["format", "version", "space_id", "encoder_sha256", "base_version"]
    names += ["round", "nonce", "weight", "query", ""]
    texts = ["", "0", "-1", "1e999", "nan", "9" * 400, "1_0", "\u0661", "\u202e", "\x00", "ab" * 16]
    metadata = {rng.choice(names): rng.choice(texts) for _ in range(rng.randrange(3))}
    tensors: dict[str, Any] = {}
    for name in rng.sample([*SHAPES, SCALES, "other"], rng.randrange(3)):
        shape = rng.choice([*SHAPES.values(), (), (0,), (2,), (1, 1, 1, 1)])
        values = [rng.choice([0.0, 0.5, -128, 3e38, float("nan"), float("inf")]) for _ in range(12)]
        with np.errstate(all="ignore"):
            tensors[name] = np.resize(values, shape).astype(rng.choice(["f4", "i1", "f8", "?"]))
    return forged(honest, tensors, **metadata)


def _random_records(rng: random.Random, honest: bytes) -> RecordDict:
    numbers: Any = [0, 1, -1, 1.0, float("nan"), float("inf"), 2**63 - 1, [], [1], [1.0, 2.0]]
    array = Array(
        rng.choice(("uint8", "", "object", "\u202e")),
        rng.choice(((), (-1,), (2**62, 2**62), (len(honest),))),
        rng.choice(("numpy.ndarray", "pickle", "")),
        rng.choice((honest, packed(honest), b"")),
    )
    names = ("declined", "loss", "drift", "effective_rank", "other")
    plain: Any = ["", "1", 1, b"x", True]
    kinds: list[Callable[[], Any]] = [
        lambda: ArrayRecord({rng.choice(("update", "other")): array}),
        lambda: MetricRecord({name: rng.choice(numbers) for name in rng.sample(names, 3)}),
        lambda: ConfigRecord({name: rng.choice(plain) for name in names}),
    ]
    wanted = rng.sample(("update", "figures", "offer"), rng.randint(0, 3))
    return RecordDict({name: rng.choice(kinds)() for name in wanted})


class DamagingGrid(LocalGrid):
    """A grid on which some replies are damaged on the wire, below what a device's app decides."""

    def __init__(self, clients: dict[int, Any], rng: random.Random, share: float) -> None:
        super().__init__(clients)
        self._rng, self._share = rng, share

    def _handle(self, message_id: str) -> None:
        super()._handle(message_id)
        wires = self._ready.get(message_id, [])
        if wires and self._rng.random() < self._share:
            self._ready[message_id] = [damage(self._rng, wire) for wire in wires]


def fuzz(count: int, seed: int, folder: Path) -> Counter[str]:
    """``count`` damaged replies through exchange, reading and rounds; what became of them.

    Every hundredth round of them goes through a journal that is opened anew after each reply.
    """
    rng = random.Random(seed)
    per_round = 100
    found: Counter[str] = Counter()
    state = small_state()
    for number in range(count // per_round):
        clients = {node: lambda m: random_reply(rng, m) for node in range(per_round)}
        clock = VirtualClock()
        exchange = Exchange(DamagingGrid(clients, rng, 0.2), clock)
        exchange.ask(Offer(0, b"release"), list(clients), per_round, 600.0)
        opened = open_round(state, SETTINGS)
        path = folder / f"{number}.sqlite"
        came = 0
        for arrival in exchange.arrivals(lambda: clock.now() > 3):  # noqa: B023
            came += 1
            update = arrival.reply.update
            if update is None:
                found["failed" if arrival.reply.failed else "declined"] += 1
                continue
            opened, receipt = receive(opened, update, 0.0)
            found[receipt.reason.value if receipt.reason else "accepted"] += 1
            if number % 100 == 0:
                with Journal.open(path) as journal:
                    if journal.open_round is None:
                        journal.begin(state, SETTINGS, now=0.0)
                    assert journal.receive(update, 0.0).accepted == receipt.accepted
        found["answers another message"] += per_round - came
        if number % 100 == 0:
            with Journal.open(path) as journal:
                assert journal.open_round is not None
                assert journal.open_round.quarantined == opened.quarantined
    return found
