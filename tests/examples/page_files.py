"""What a page's reader has before a block: notes, a corpus, keys, a database, a checkout.

``run_page`` runs a page's blocks one after the other in one folder; before the first of them, or
before the block that holds a certain line, a function of this module lays files there.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import socket
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from pydoc_data.topics import topics

import pytest
from postgres_server import a_server

from pocketquery import sdk
from tests.examples.pages import ROOT, blocks, run
from tests.examples.small_demo import small_demo
from tests.sdk.tiny_bundle import PRIVATE

__all__ = ["PREPARATIONS", "run_page"]

NOTES = {
    "garden.md": "# Garden\n\n## March\n\nSowed tomatoes and peppers on the window sill.\n",
    "bicycle.txt": "The rear brake squeals. New pads are in the drawer.\n",
}
DOCUMENTS = [
    sdk.Document("p1", "Money comes back within ten days.", {"tenant": "a", "groups": ["staff"]}),
    sdk.Document("p2", "Parcels arrive on weekdays.", {"tenant": "a", "groups": ["berlin"]}),
    sdk.Document("p3", "Send back what does not fit.", {"tenant": "b", "groups": ["guests"]}),
    sdk.Document("p4", "Vouchers are valid for three years.", {"tenant": "b", "groups": []}),
]
CHECKOUT = (
    *("client", "server", "sdk", "distill", "export", "examples", "docs", "typings"),
    *("pyproject.toml", "constraints.txt", "README.md", "LICENSE"),
)


@dataclass(frozen=True)
class Desk:
    """Where the blocks of a page run: a folder, variables, and what ends with them."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    stack: ExitStack = field(default_factory=ExitStack)


Preparation = Callable[[Desk], None]
PREPARATIONS: list[tuple[str, str, Preparation]] = []
"""A page, words of the block before which it is called ("": the first one), the function."""


def before(page: str, words: str = "") -> Callable[[Preparation], Preparation]:
    """Call the decorated function before the first block of ``page`` that has these words."""

    def kept(prepare: Preparation) -> Preparation:
        PREPARATIONS.append((page, words, prepare))
        return prepare

    return kept


def run_page(name: str, folder: Path, *, slow: bool = False) -> None:
    """Run the blocks of a page in ``folder``, and compare what they print where the page says it.

    Without ``slow`` those that are marked slow are left out. Where only the base install is, the
    test is skipped at the first block that needs an extra.
    """
    waiting = [(words, prepare) for page, words, prepare in PREPARATIONS if page == name]
    with ExitStack() as stack:
        desk, variables = Desk(folder, stack=stack), ""
        for block in blocks(name, slow=slow):
            for entry in [one for one in waiting if one[0] in block.code]:
                waiting.remove(entry)
                entry[1](desk)
            if block.language == "sh":  # what a reader's shell would still know
                block = block._replace(code=variables + block.code)
                variables = "".join(re.findall(r"^[A-Z]+=.*\n", block.code, re.MULTILINE))
            try:
                printed = run(block, folder, desk.environment)
            except AssertionError as error:
                if find_spec("torch") is None and 'pip install "pocketquery[' in str(error):
                    pytest.skip(f"{block.heading}: needs an extra")
                raise
            assert block.printed in (None, printed), block.heading


@before("README.md", "index ~/notes")
@before("encoders.md", "index notes/")
def write_notes(desk: Desk) -> None:
    folder = desk.folder / "notes"
    folder.mkdir()
    for name, text in NOTES.items():
        (folder / name).write_text(text, encoding="utf-8")


@before("README.md")
@before("tour.md")
@before("how-to/own-documents.md", "constraints.txt")
@before("how-to/folders.md")
@before("how-to/large-corpora.md")
def stand_in_checkout(desk: Desk) -> None:
    for name in CHECKOUT:
        (desk.folder / name).symlink_to(ROOT / name)


@before("encoders.md", "install ./packages/pocketquery-minilm")
@before("how-to/large-corpora.md", "packages/pocketquery-corpus")
@before("how-to/servers.md", "packages/pocketquery-stores")
def copy_packages(desk: Desk) -> None:
    shutil.copytree(ROOT / "packages", desk.folder / "packages")  # pip builds in them


@before("encoders.md", "pocketquery package")
def copy_bundle(desk: Desk) -> None:
    shutil.copytree(sdk.bundles()["default"], desk.folder / "bundle")


@before("how-to/slices.md")
def write_corpus(desk: Desk) -> None:
    lines = [
        json.dumps({"_id": one.id, "text": one.text, **one.metadata}) + "\n" for one in DOCUMENTS
    ]
    (desk.folder / "corpus.jsonl").write_text("".join(lines), encoding="utf-8")


@before("how-to/slices.md", "pocketquery delta make")
def write_two_versions(desk: Desk) -> None:
    """Slices as they were and as they are, and the older one on a device."""
    write_versions(desk.folder, None)


@before("how-to/slices.md", "--signing-key")
def write_signed_versions(desk: Desk) -> None:
    """The same, signed."""
    for name in ("slices-1", "slices-2", "index"):
        shutil.rmtree(desk.folder / name)
    key = desk.folder / "publisher.pem"
    write_keys(key)
    write_versions(desk.folder, key)


def write_versions(folder: Path, key: Path | None) -> None:
    changed = [sdk.Document("p1", "Money comes back within a week.", DOCUMENTS[0].metadata)]
    for number, documents in enumerate([DOCUMENTS, changed + DOCUMENTS[2:]], 1):
        write_index(folder / f"all-{number}", documents)
        sdk.slice_index(
            folder / f"all-{number}",
            {"tenant": "a"},
            folder / f"slices-{number}" / "a",
            signing_key=key,
        )
    shutil.copytree(folder / "slices-1" / "a", folder / "index")


def write_keys(path: Path, seed: bytes = PRIVATE) -> None:
    """An Ed25519 key pair, ``publisher.pem`` and ``publisher.pub.pem``, say."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    private = Ed25519PrivateKey.from_private_bytes(seed.ljust(32))
    path.write_bytes(private.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    public = serialization.PublicFormat.SubjectPublicKeyInfo
    path.with_suffix(".pub.pem").write_bytes(private.public_key().public_bytes(pem, public))


@before("how-to/servers.md")
def write_servers_index(desk: Desk) -> None:
    write_index(desk.folder / "all", DOCUMENTS)
    sdk.slice_index(desk.folder / "all", {"tenant": "a"}, desk.folder / "slices" / "a")


def write_index(path: Path, documents: Iterable[sdk.Document]) -> None:
    encoder, documents = sdk.load(), list(documents)
    with sdk.create_index(path, space_id=encoder.space_id, dimension=encoder.dimension) as builder:
        builder.add(documents, encoder.encode_document([one.text for one in documents]))


@before("how-to/servers.md", "postgresql://")
def start_postgres(desk: Desk) -> None:
    """The page's host is this one, where its user and its database are."""
    psycopg = pytest.importorskip("psycopg", reason="needs psycopg")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with psycopg.connect(desk.stack.enter_context(a_server(port)), autocommit=True) as connection:
        connection.execute("CREATE ROLE search SUPERUSER LOGIN")
        connection.execute("CREATE DATABASE search OWNER search")
    words = f"host=127.0.0.1 port={port} user=search dbname=search"
    with psycopg.connect(words) as connection:
        connection.execute("CREATE SCHEMA tenants")
    service = desk.folder / "services"
    service.write_text("[search]\ndbname=search\nuser=search\n", encoding="utf-8")
    desk.environment.update(PGHOSTADDR="127.0.0.1", PGPORT=str(port), PGSERVICEFILE=str(service))


@before("how-to/own-documents.md", "test.tsv")
def write_judgements(desk: Desk) -> None:
    (desk.folder / "test.tsv").write_text("q1\tmoney back\nq2\tparcels\n", encoding="utf-8")
    (desk.folder / "qrels.tsv").write_text("q1\tp1\t1\nq2\tp2\t1\n", encoding="utf-8")


# What the slow blocks need.


@before("tour.md", "demo/bundle")
def link_demo(desk: Desk) -> None:
    """What ``make demo`` left in the checkout; without it the test is skipped, but not where CI
    runs, which makes it."""
    demo = ROOT / "demo"
    if not (demo / "report.json").exists():
        assert "CI" not in os.environ, "make demo has not run"
        pytest.skip("needs demo/, which make demo leaves")
    (desk.folder / "demo").symlink_to(demo)
    (desk.folder / "packages").symlink_to(ROOT / "packages")


@before("tour.md", "--student student")
def write_own_documents(desk: Desk) -> None:
    """The demo's student for one's own, and a corpus of two tenants with judged queries."""
    (desk.folder / "student").symlink_to(desk.folder / "demo" / "student")
    write_collection(desk.folder)


def write_collection(folder: Path) -> None:
    """corpus.jsonl, queries.tsv and qrels.tsv; test.tsv has the same queries."""
    demo = small_demo()
    rows = [json.loads(line) for line in demo.corpus.splitlines()]
    owned = [
        row | {"tenant": "ab"[number % 2], "year": 1990 + number % 30}
        for number, row in enumerate(rows)
    ]
    lines = "".join(json.dumps(row) + "\n" for row in owned)
    (folder / "corpus.jsonl").write_text(lines, encoding="utf-8")
    for name, text in {"queries": demo.queries, "test": demo.queries, "qrels": demo.qrels}.items():
        (folder / f"{name}.tsv").write_text(text, encoding="utf-8")


@before("tour.md", "--rounds 3")
def lighten_trainable(desk: Desk) -> None:
    """Rounds train a lighter encoder of the same space."""
    shutil.rmtree(desk.folder / "trainable")
    shutil.copytree(small_demo().bundle, desk.folder / "trainable")


@before("federation.md")
@before("how-to/pilot.md")
def write_small_checkout(desk: Desk) -> None:
    """A checkout whose demo is small."""
    demo, folder = small_demo(), desk.folder
    for name in CHECKOUT:
        (folder / name).symlink_to(ROOT / name)
    package = folder / "packages" / "pocketquery-demo" / "pocketquery_demo"
    package.mkdir(parents=True)
    (package / "data").symlink_to(demo.data)
    (folder / "demo").mkdir()
    shutil.copytree(demo.student, folder / "demo" / "student")
    shutil.copytree(demo.index, folder / "demo" / "index")


@before("how-to/pilot.md", "federation/releases")
def write_three_releases(desk: Desk) -> None:
    write_releases(desk.folder, 3, share=0.3)


@before("devices.md")
def write_seven_releases(desk: Desk) -> None:
    """Keys, a registry, and on a device the bundle, releases and a folder for what it trusts."""
    folder = desk.folder
    shutil.copytree(small_demo().bundle, folder / "trainable")
    for name in ("publisher", "next"):
        write_keys(folder / f"{name}.pem", name.encode())
    write_releases(folder, 7)
    shutil.copy(folder / "adapter-7.safetensors", folder / "adapter-8.safetensors")
    shutil.copytree(folder / "trainable", folder / "bundle")
    (folder / "state").mkdir()


def write_releases(folder: Path, count: int, share: float = 1.0) -> None:
    """A registry of ``count`` releases, the last for a share of the devices, and their files."""
    from pocketquery.sdk.bundle.bundle import Bundle
    from pocketquery.server.federation.releases.registry import Registry

    bundle, key = Bundle.open(folder / "trainable"), folder / "publisher.pem"
    registry = Registry.of_bundle(folder / "federation" / "releases", bundle, signing_key=key)
    for number in range(2, count + 1):
        tensors = {name: one + 0.01 * number for name, one in bundle.adapter().items()}
        registry.publish(
            tensors,
            None,
            manifest=bundle.manifest,
            parent=str(number - 1),
            signing_key=key,
            share=share if number == count else 1.0,
        )
    for number in range(2, count + 1):
        data = registry.read(str(number))
        (folder / f"adapter-{number}.safetensors").write_bytes(data)


@before("privacy.md", "--bundle trainable")
def write_fleet(desk: Desk) -> None:
    demo = small_demo()
    shutil.copytree(demo.bundle, desk.folder / "trainable")
    shutil.copytree(demo.index, desk.folder / "demo" / "index")
    (desk.folder / "queries.tsv").write_text(demo.queries, encoding="utf-8")


@before("how-to/phones-and-browsers.md", "--student student")
@before("how-to/own-teacher.md")
@before("formats/bundle.md")
def write_student(desk: Desk) -> None:
    shutil.copytree(small_demo().student, desk.folder / "student")
    write_collection(desk.folder)


@before("how-to/own-teacher.md")
def write_encoder(desk: Desk) -> None:
    """The teacher as one's own, and a second student of it."""
    from pocketquery.server.modeling.resolve import resolve_model

    shutil.copytree(resolve_model("demo"), desk.folder / "encoder")
    shutil.copytree(small_demo().student, desk.folder / "better")


@before("distillation.md")
def write_service(desk: Desk) -> None:
    """A service that gives vectors, queries like its users' and documents."""
    client = "from pocketquery.server.modeling import SentenceEncoder\n\n"
    client += 'embed = SentenceEncoder.load("demo").encode\n'
    (desk.folder / "my_api.py").write_text(client, encoding="utf-8")
    write_collection(desk.folder)
    lines = small_demo().queries.splitlines()
    texts = [line.split("\t")[1] for line in lines]
    (desk.folder / "log.txt").write_text("\n".join(texts), encoding="utf-8")
    rows = (desk.folder / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    documents = [" ".join(json.loads(row)["text"].split()) for row in rows]
    (desk.folder / "documents.txt").write_text("\n".join(documents), encoding="utf-8")


@before("adaptation.md", "pocketquery adapt ")
def write_strange_texts(desk: Desk) -> None:
    """The demo's student, and an index of texts whose language it does not know yet: Python's own
    manual, which is no page of ours (what is gained must not hang on what we write here)."""
    link_demo(desk)
    (desk.folder / "student").symlink_to(desk.folder / "demo" / "student")
    write_collection(desk.folder)
    paragraphs = (part for text in topics.values() for part in re.split(r"\n\s*\n", text))
    texts = [text for text in map(" ".join, map(str.split, paragraphs)) if len(text) > 80]
    write_index(desk.folder / "index", [sdk.Document(str(n), text) for n, text in enumerate(texts)])


@before("adaptation.md", "import adapt")
def lighten_bundle(desk: Desk) -> None:
    """From here a student that is taught in half a minute; its adapter alone gains too little."""
    shutil.rmtree(desk.folder / "bundle")
    shutil.copytree(small_demo().bundle, desk.folder / "bundle")
    (desk.folder / "student").unlink()
    shutil.copytree(small_demo().student, desk.folder / "student")


@before("how-to/large-corpora.md")
def write_shards(desk: Desk) -> None:
    folder = desk.folder / "corpus"
    folder.mkdir()
    rows = [{"_id": one.id, "text": one.text, **one.metadata} for one in DOCUMENTS]
    for number, some in enumerate((rows[:2], rows[2:])):
        lines = "".join(json.dumps(row) + "\n" for row in some)
        (folder / f"{number}.jsonl.gz").write_bytes(gzip.compress(lines.encode(), mtime=0))


@before("how-to/large-corpora.md", "*.parquet")
def write_parquet(desk: Desk) -> None:
    import pyarrow
    from pyarrow import parquet

    rows = [{"_id": one.id, "text": one.text} for one in DOCUMENTS]
    parquet.write_table(pyarrow.Table.from_pylist(rows), desk.folder / "corpus" / "2.parquet")


@before("how-to/phones-and-browsers.md")
def link_examples(desk: Desk) -> None:
    (desk.folder / "examples").symlink_to(ROOT / "examples")
