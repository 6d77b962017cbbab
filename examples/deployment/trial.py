"""What every example's rounds begin with: users' queries dealt to devices, keys, a configuration.

A publisher's key signs the bundle, the releases and what is in force, and the devices take nothing
else. Every tenth query is held out for the acceptance gate; the others are dealt to the devices, as
if their users had searched for them. For private rounds every device is enrolled: it makes a key
of its own, and an authority, whose private key the server does not know, certifies it.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from certificates import make_enrolment_authority, make_signing_key

from pocketquery.client.store.store import QueryStore
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.bundle.writing import write_bundle
from pocketquery.sdk.cli import main as pocketquery
from pocketquery.server.corpus import Query, read_queries
from pocketquery.server.federation.live_table import report_line
from pocketquery.server.federation.orchestration.federation import finished_rounds
from pocketquery.server.federation.releases.registry import Registry

__all__ = ["Trial", "add_arguments", "make_trial", "show"]

_QUERIES = (
    Path(__file__).resolve().parents[2]
    / "packages/pocketquery-demo/pocketquery_demo/data/queries.tsv.gz"
)
_HELD_OUT = 10
_LEAST = 3  # devices of a private round; such groups hide little
_FEDERATION = "trial"


@dataclass(frozen=True)
class Trial:
    """What the rounds run with.

    Attributes:
        output: the folder of everything.
        config: of the ServerApp, as ``flwr run`` takes it.
        kept: the queries that are not held out.
        public: the publisher's public key.
    """

    output: Path
    config: dict[str, object]
    kept: list[Query]
    public: Path

    def devices(self, count: int, *, private: bool = False) -> list[dict[str, object]]:
        """``count`` devices whose users consented and searched; each one's own configuration."""
        return [
            self._device(self.output / f"device-{number}", self.kept[number::count], private)
            for number in range(count)
        ]

    def _device(self, state: Path, queries: Sequence[Query], private: bool) -> dict[str, object]:
        state.mkdir(parents=True, exist_ok=True)
        with QueryStore.open(state / "queries.sqlite") as store:
            store.give_consent()
            known = len(store)
            for query in queries[known:]:
                store.add(query.text)
        config: dict[str, object] = {
            "bundle": self.config["bundle"],
            "index": self.config["index"],
            "state": str(state),
            "policy": "always",  # this machine need not be idle, charging or on a network
            "public-key": str(self.public),
        }
        return config | (_enrolled(state, self.output / "authority") if private else {})


def add_arguments(parser: argparse.ArgumentParser, output: str, seconds: float) -> None:
    """What every example can be told."""
    parser.add_argument(
        "--bundle", help="with a training step; by default the demo's student is exported with one"
    )
    parser.add_argument("--index", default="demo/index")
    parser.add_argument(
        "--queries", default=str(_QUERIES), help="tsv (id, text) or JSON Lines; default: the demo's"
    )
    parser.add_argument("--output", default=output)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=10, help="training steps on a device")
    parser.add_argument("--seconds", type=float, default=seconds, help="most the run may take")


def make_trial(arguments: argparse.Namespace, *, private: bool = False, **options: object) -> Trial:
    """A trial with what :func:`add_arguments` was told: its keys and its held-out queries.

    Args:
        arguments: the parsed ones.
        private: whether the rounds are, and the devices are enrolled.
        options: more of the ServerApp's.
    """
    output = Path(arguments.output).resolve()
    output.mkdir(parents=True, exist_ok=True)
    queries = read_queries(arguments.queries)
    bundle = Path(arguments.bundle) if arguments.bundle else _demo_bundle(output / "trainable")
    signing_key, public = make_signing_key(output / "publisher", "publisher")
    _sign_bundle(bundle, output / "bundle", signing_key)
    held_out = output / "held-out.tsv"
    lines = [f"{query.id}\t{query.text}\n" for query in queries[::_HELD_OUT]]
    held_out.write_text("".join(lines), encoding="utf-8")
    config: dict[str, object] = {
        "bundle": str(output / "bundle"),
        "signing-key": str(signing_key),
        "index": str(Path(arguments.index).resolve()),
        "folder": str(output / "server"),
        "gate-queries": str(held_out),
        "rounds": arguments.rounds,
        "steps": arguments.steps,
        **options,
    }
    if private:
        config |= {
            "secure": "on",
            "federation": _FEDERATION,
            "enrolment": str(make_enrolment_authority(output / "authority")[1]),
            "secure-least": _LEAST,
            "least-replies": _LEAST,
        }
    kept = [query for place, query in enumerate(queries) if place % _HELD_OUT]
    return Trial(output, config, kept, public)


def _demo_bundle(target: Path) -> Path:
    """The demo's student as a bundle that can learn; exported once, in a minute."""
    student = Path("demo/student")
    if not student.is_dir():
        raise SystemExit(
            f"found no --bundle and no {student}; expected a bundle with a training step, or the "
            "demo's student: make demo"
        )
    if not (target / "manifest.json").is_file():
        command = ["export", "--student", student, "--queries", _QUERIES, "--output", target]
        if code := pocketquery([*map(str, command), "--training-step"]):
            raise SystemExit(code)
    return target


def _sign_bundle(source: Path, target: Path, signing_key: Path) -> None:
    """A copy of a bundle, signed. Where you export your own: pocketquery export --signing-key."""
    bundle = Bundle.open(source)
    files = {name: bundle.read(name) for name in bundle.manifest.files}
    write_bundle(target, bundle.manifest, files, signing_key=signing_key)


def _enrolled(state: Path, authority: Path) -> dict[str, object]:
    """Make a device's key and have it certified; what the device then insists on."""
    private, public = make_enrolment_authority(authority)
    request, certificate = state / "device.request", state / "device.certificate"
    if not certificate.is_file():
        commands = (
            ["key", "--state", state],
            ["request", "--state", state, "--output", request],
            ["sign", request, "--key", private, "--federation", _FEDERATION],
        )
        for command in commands:
            if code := pocketquery(["enrol", *map(str, command)]):
                raise SystemExit(code)
    return {
        "secure": "required",
        "enrolment": str(public),
        "certificate": str(certificate),
        "least": _LEAST,  # of real devices: 20 and more
        "rest": 1,  # of real devices: 8 rounds
        "privacy": "any",  # no noise: of three devices it would leave nothing
    }


def show(folder: Path) -> None:
    """The rounds, and what to look at."""
    for report in finished_rounds(folder):
        print(report_line(report))
    print(f"\nOpen {folder / 'report.html'}, or:")
    print(f"  pocketquery releases list --registry {folder / 'releases'}")
    if Registry.open(folder / "releases").lineage():
        print(f"  pocketquery releases lineage --registry {folder / 'releases'}")
