"""The search page in a real browser: found, offline, updated, refused, learned from."""

from __future__ import annotations

import base64
import gzip
import hashlib
import http.client
import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pocketquery import sdk
from pocketquery.sdk.bundle.installed import installed_bundle
from pocketquery.sdk.index.builder import create_index
from pocketquery.sdk.index.documents import Document, content
from tests.examples.web_scripts import PACKAGE, PAGE, ROOT, WEB, browser, built, seen
from tests.sdk.tiny_bundle import write_tiny_bundle, write_tiny_index
from tests.tiny_models import sentences

SERVE = WEB / "serve.py"
TRAINING = ROOT / "conformance" / "training" / "bundle"
REFERENCE = ROOT / "benchmarks" / "reference" / "bundle"
CORPUS = ROOT / "packages/pocketquery-demo/pocketquery_demo/data/corpus.jsonl.gz"
KEY = base64.b64encode(bytes.fromhex("302a300506032b6570032100") + bytes(range(32))).decode()
WORDS = "water oxygen norman castle geology rock teacher school pharmacy drug empire trade".split()
SEARCHES = [
    f"{WORDS[i]} {WORDS[(i * 5 + 3) % 12]} of the {WORDS[(i * 7 + 1) % 12]}" for i in range(10)
]
NOTES = {
    "en/restic.md": "# Restic\n"
    + "".join(
        f"\n## {name}\n\nRestic keeps a backup of the notes: {name.lower()}.\n"
        for name in ("Begin", "Every day", "Every week", "Look", "Prune", "Move")
    )
    + "\n## Restore\n\nA backup of the notes with restic comes back.\n\n"
    "```sh\nif restic check\nthen:\n    restic -r /srv/repo backup ~/notes\nfi\n```\n",
    "en/garden.md": "# What grows\n\nBeans and peas were planted in the second week of March.\n",
    "de/sicherung.md": "# Sicherung\n\nDas Backup der Notizen wird mit Restic gemacht, "
    "und zwar jede Nacht.\n",
}
QUERIES = [
    "when did the oil crisis begin",
    "how do plants make sugar",
    "which company owns abc",
    "who discovered oxygen",
    "what did the treaty of versailles say",
]

# Nine visits, each of which loads everything anew.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800), built]


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """Of a server with a tiny bundle and index."""
    (tmp_path / "secret.txt").write_text("secret", encoding="utf-8")
    bundle, index = write_tiny_bundle(tmp_path / "bundle"), write_tiny_index(tmp_path / "index")
    with serving("--bundle", bundle, "--index", index) as port:
        yield port


@contextmanager
def serving(*options: str | Path) -> Iterator[int]:
    """A server with these options; its port."""
    command = [sys.executable, SERVE, "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield int(server.stdout.readline().split("/")[2].rpartition(":")[2])
        finally:
            server.terminate()


def ask(port: int, path: str, method: str = "GET", **headers: str) -> tuple[Any, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    try:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, headers=names)
        response = connection.getresponse()
        return response, response.read()
    finally:
        connection.close()


def test_the_server_serves_its_list_and_nothing_else(port: int, tmp_path: Path) -> None:
    _, script = ask(port, "/site.js")
    files = json.loads(script.removeprefix(b"self.SITE = ").rstrip(b";\n"))["files"]
    assert {"index.html", "bundle/manifest.json", "index/documents.sqlite"} <= set(files)
    for name, entry in files.items():
        response, data = ask(port, f"/{name}")
        assert response.status == 200
        assert hashlib.sha256(data).hexdigest() == entry["sha256"]
        assert len(data) == entry["bytes"] == int(response.headers["Content-Length"])
        again, nothing = ask(port, f"/{name}", If_None_Match=response.headers["ETag"])
        assert (again.status, nothing) == (304, b"")
    types = {name: ask(port, name, "HEAD")[0].headers["Content-Type"] for name in ("/", "/page.js")}
    assert types == {"/": "text/html; charset=utf-8", "/page.js": "text/javascript; charset=utf-8"}
    wasm, nothing = ask(port, "/onnxruntime/ort-wasm-simd-threaded.wasm", "HEAD")
    assert (wasm.headers["Content-Type"], nothing) == ("application/wasm", b"")
    assert "wasm-unsafe-eval" in wasm.headers["Content-Security-Policy"]
    for path in (
        "/../secret.txt",
        "/bundle/../../secret.txt",
        "/bundle/%2e%2e/%2e%2e/secret.txt",
        f"/{tmp_path / 'secret.txt'}",
        "/bundle",
        "/bundle/",
        "/serve.py",
        "/sdk/node.js",
        "/index/documents.sqlite-journal",
    ):
        assert ask(port, path)[0].status == 404, path
    assert ask(port, "/", Host="elsewhere.example")[0].status == 421


def test_what_can_be_is_sent_compressed(port: int) -> None:
    script = ask(port, "/site.js")[1]
    files = json.loads(script.removeprefix(b"self.SITE = ").rstrip(b";\n"))["files"]
    sent = {}
    for name, entry in files.items():
        response, data = ask(port, f"/{name}", Accept_Encoding="gzip")
        sent[name] = len(data)
        if response.headers["Content-Encoding"] == "gzip":
            assert response.headers["Vary"] == "Accept-Encoding"
            data = gzip.decompress(data)
        assert hashlib.sha256(data).hexdigest() == entry["sha256"]
    assert sent["onnxruntime/ort-wasm-simd-threaded.wasm"] < 4_000_000
    first = [name for name, entry in files.items() if "later" not in entry]
    assert not any(name.startswith("onnxruntime/") for name in first)
    # With a bundle of 6 MB and an index of some thousand documents it stays below 9 MB.
    assert sum(sent[name] for name in first if not name.startswith("bundle/")) < 500_000


def test_a_changed_file_is_another_in_the_list(port: int, tmp_path: Path) -> None:
    before = ask(port, "/site.js")[1]
    (tmp_path / "bundle" / "note.txt").write_text("new", encoding="utf-8")
    after = ask(port, "/site.js")[1]
    assert b"bundle/note.txt" not in before
    assert hashlib.sha256(b"new").hexdigest().encode() in after


def test_what_the_browser_has_is_sent_again_with_another_policy(tmp_path: Path) -> None:
    command: list[str | Path] = ["--bundle", write_tiny_bundle(tmp_path / "bundle")]
    command += ["--index", write_tiny_index(tmp_path / "index")]
    with serving(*command) as port:
        before = ask(port, "/")[0].headers
        assert ask(port, "/", If_None_Match=before["ETag"])[0].status == 304
    with serving(*command, "--gateway", "https://gateway.example.org") as port:
        after, _ = ask(port, "/", If_None_Match=before["ETag"])
        script = ask(port, "/site.js")[1]
    assert after.status == 200  # on a 304 browsers keep the policy that they have
    policy = after.headers["Content-Security-Policy"]
    assert policy != before["Content-Security-Policy"]
    site = json.loads(script.removeprefix(b"self.SITE = ").rstrip(b";\n"))
    assert site["headers"]["Content-Security-Policy"] == policy  # for the service worker


def test_the_server_says_what_is_missing(tmp_path: Path) -> None:
    index = make_index(tmp_path / "index", sdk.load(REFERENCE).space_id, 400)
    command: list[str | Path] = [sys.executable, SERVE, "--bundle", tmp_path, "--index", index]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "manifest.json is not there; pocketquery export writes a bundle" in ended.stderr


def make_index(path: Path, space_id: str, step: int) -> Path:
    """Every ``step``-th document of the demo's corpus, encoded by the reference bundle."""
    encoder = sdk.load(REFERENCE)
    with gzip.open(CORPUS, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines][::step]
    documents = [Document(row["_id"], row["text"], {"title": row["title"]}) for row in rows]
    with create_index(path, space_id=space_id, dimension=encoder.dimension) as builder:
        builder.add(documents, encoder.encode([content(document) for document in documents]))
    return path


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What web_page.mjs saw."""
    folder = tmp_path_factory.mktemp("web")
    pictures = Path(os.environ.get("POCKETQUERY_PICTURES") or folder)
    space = sdk.load(REFERENCE).space_id
    good = make_index(folder / "index", space, 8)
    tampered = shutil.copytree(REFERENCE, folder / "tampered")
    with (tampered / "encoder.onnx").open("r+b") as file:
        file.seek(1_000_000)
        file.write(b"\x55\xaa\x55\xaa")
    key = folder / "key.pem"
    key.write_text(
        f"-----BEGIN PUBLIC KEY-----\n{KEY}\n-----END PUBLIC KEY-----\n", encoding="utf-8"
    )
    sites = {
        "good": [REFERENCE, good],
        "newer": [REFERENCE, make_index(folder / "newer", space, 32)],
        "tampered": [tampered, good],
        "unsigned": [REFERENCE, good, key],
        "elsewhere": [REFERENCE, make_index(folder / "elsewhere", "space-of-others", 64)],
    }
    for name, text in NOTES.items():
        note = folder / "notes" / name
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(text, encoding="utf-8")
    sdk.index_folder(folder / "notes", folder / "filed")
    sites["filed"] = [Path(str(installed_bundle("default"))), folder / "filed"]
    found = seen("web_page.mjs", sites=sites, queries=QUERIES, pictures=pictures)
    if "POCKETQUERY_PICTURES" in os.environ:
        (pictures / "report.json").write_text(json.dumps(found), encoding="utf-8")
    return found


@browser
def test_results_are_found_and_highlighted(report: Any) -> None:
    main = report["main"]
    assert main["errors"] == []
    for asked in main["online"]:
        assert asked["status"].startswith(f"{len(asked['titles'])} results in ")
    assert main["online"][0]["titles"][0] == "1973 oil crisis"
    marks = {mark.lower() for mark in main["online"][0]["marks"]}
    assert {"oil", "crisis", "beginning"} <= marks  # by their stems
    assert not {"the", "did", "when"} & marks


@browser
def test_results_stand_by_file_in_their_language(report: Any) -> None:
    filed = report["filed"]
    assert filed["errors"] == []
    assert filed["facts"]["Passages"].startswith("9 of 3 files")
    assert filed["languages"] == ["All languages", "English", "German"]
    first = filed["both"][0]
    assert first["place"] == "en › restic.mdEnglish"
    assert first["titles"][0].startswith("Restic › ")
    assert "Restic" not in first["titles"][1]  # its file is named once
    assert first["more"] == "5 more in this file"
    assert filed["named"].startswith("Beans and peas")  # without "garden", which its place says
    assert filed["others"] == 7  # after a click
    assert filed["german"] == ["de › sicherung.mdGerman"]
    assert filed["cleared"] == {"value": "", "results": 0, "focus": "query", "offered": False}
    assert filed["code"] == "then:\n    restic -r /srv/repo backup ~/notes"


@browser
def test_what_hardly_fits_is_shown_when_it_is_asked_for(report: Any) -> None:
    weak = report["filed"]["weak"]
    assert weak["before"] == ["No results", "Nothing here fits well."]
    assert weak["after"] > 0
    unread = report["filed"]["unread"]
    assert "The encoder does not read this language" in unread["status"]
    assert unread["nothing"] == "Nothing here has these words."
    assert "No text has the words in quotes as they stand" in report["filed"]["absent"]
    assert report["filed"]["none"] == ["Nothing here has these words.", False]


@browser
def test_a_text_that_is_too_long_is_cut_at_a_whole_character(report: Any) -> None:
    assert " results in " in report["main"]["long"]


@browser
def test_the_panel_says_what_is_known(report: Any) -> None:
    facts = report["main"]["facts"]
    assert facts["Passages"].startswith("193 (")
    assert facts["Query encoder"].startswith("reference-3x384, version 1 (18.2 MB)")
    assert sdk.load(REFERENCE).space_id in facts["Vector space"]
    assert facts["Hashes"].startswith("verified")
    assert facts["Signature"] == "none"
    assert facts["Offline"].startswith("everything is stored here")
    assert "All " in report["main"]["replayed"]


@browser
def test_the_keyboard_suffices(report: Any) -> None:
    walked = report["main"]["walked"]
    down, enter, up, again, end, escape, tab, slash = walked["steps"]
    last = f"text-{len(report['main']['online'][-1]['titles']) - 1}"
    assert (down, enter, again, end) == ("text-0", "text-0", "text-0", last)
    assert up == escape == slash == "query" != tab
    assert walked["open"] == 1  # by Enter
    assert walked["again"] == [1, True]  # the page asked the same again: still open, still focused


@browser
def test_a_screen_reader_hears_the_count_and_finds_no_gap_in_the_headings(report: Any) -> None:
    main = report["main"]
    assert main["announced"] == "polite"
    levels = main["headings"]
    assert levels[0] == 1
    assert all(deeper - before <= 1 for before, deeper in itertools.pairwise(levels))
    assert 3 in levels  # the results'


@browser
def test_without_a_network_it_finds_the_same(report: Any) -> None:
    main = report["main"]
    for online, offline in zip(main["online"], main["offline"], strict=True):
        assert offline["titles"] == online["titles"]
        assert offline["marks"] == online["marks"]
    assert main["offlineFacts"]["Passages"] == main["facts"]["Passages"]


@browser
def test_a_newer_version_replaces_the_older_cleanly(report: Any) -> None:
    main = report["main"]
    assert main["beforeUpdate"] == main["facts"]["Passages"]
    assert main["afterUpdate"].startswith("49 (")
    assert sorted(main["stored"]) == sorted(main["named"])


@browser
def test_refusals_are_clear(report: Any) -> None:
    assert "The query encoder was refused" in report["tampered"]["problem"]
    assert "encoder.onnx has SHA-256" in report["tampered"]["problem"]
    assert "The index was refused" in report["elsewhere"]["problem"]
    assert "space-of-others" in report["elsewhere"]["problem"]
    assert "It is not signed by the publisher" in report["unsigned"]["problem"]
    assert "WebAssembly is switched off" in report["noWebAssembly"]["problem"]


@browser
@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("noServiceWorker", "not available: service workers are switched off"),
        ("noSpace", "not available: not everything could be stored: is there space left?"),
    ],
)
def test_where_nothing_can_be_kept_it_searches_online(report: Any, case: str, reason: str) -> None:
    found = report[case]
    assert found["problem"] == ""
    assert found["facts"]["Offline"].startswith(reason)
    assert found["titles"] == report["main"]["online"][0]["titles"]


def make_learning_index(path: Path, size: int = 90) -> Path:
    """Of the space of the tiny encoder with a training step."""
    encoder = sdk.load(TRAINING)
    texts = sentences(size)
    documents = [Document(f"d{i}", text, {"title": text[:-2]}) for i, text in enumerate(texts)]
    with create_index(path, space_id=encoder.space_id, dimension=encoder.dimension) as builder:
        builder.add(documents, encoder.encode(texts))
    return path


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What web_learning.mjs saw: a tiny encoder with a training step, and an index of its space."""
    folder = tmp_path_factory.mktemp("learning")
    index = make_learning_index(folder / "index")
    return seen(
        "web_learning.mjs",
        site=[TRAINING, index],
        queries=SEARCHES,
        pictures=os.environ.get("POCKETQUERY_PICTURES") or folder,
    )


@browser
def test_nothing_is_kept_or_loaded_before_consent(learned: Any) -> None:
    assert learned["errors"] == []
    assert learned["before"]["ask"]
    assert learned["before"]["databases"] == [0]
    assert not learned["before"]["loaded"]
    assert learned["consented"]["stored"]
    assert learned["consented"]["disabled"]
    assert learned["consented"]["needed"].startswith("8 more different searches")


@browser
def test_without_a_network_the_page_improves_its_own_encoder(learned: Any) -> None:
    assert learned["improved"]["said"] == "Improved, and in use from now on."
    assert learned["improved"]["figures"].startswith("from 10 opened results, ")
    assert learned["reloaded"] == {
        "figures": learned["improved"]["figures"],
        "same": True,
        "differs": True,
    }
    assert learned["undone"] == {"figures": "none", "asBefore": True, "kept": "10 opened results"}


@browser
def test_what_is_erased_takes_the_improvement_along(learned: Any) -> None:
    assert learned["again"].startswith("from 10 opened results")
    assert learned["saved"] == [*SEARCHES, SEARCHES[0]]  # opened while it was improved
    assert SEARCHES[2] not in learned["forgotten"]["kept"]
    assert SEARCHES[3] in learned["forgotten"]["kept"]
    assert learned["forgotten"]["figures"] == "none"
    assert learned["forgotten"]["asBefore"]
    assert learned["withdrawn"] == {"ask": True, "after": True}


@browser
def test_its_button_comes_back_when_the_improvement_has_ended(learned: Any) -> None:
    assert learned["enabled"]
    assert all(learned["enabled"])


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What web_modules.mjs saw."""
    folder = tmp_path_factory.mktemp("modules")
    shutil.copytree(TRAINING, folder / "bundle")
    make_learning_index(folder / "index")
    for module in PAGE.glob("*.js"):
        shutil.copy(module, folder)
    return seen(
        "web_modules.mjs",
        cwd=folder,
        dist=PACKAGE / "dist",
        onnxruntime=PACKAGE / "node_modules" / "onnxruntime-node" / "dist" / "index.js",
        queries=SEARCHES,
    )


def test_what_is_opened_meanwhile_does_not_end_the_improvement(modules: Any) -> None:
    for found in (modules["alone"], modules["looked"]):
        assert found == {"kept": True, "reason": None, "version": "1+local", "told": True}


def test_one_improvement_at_a_time(modules: Any) -> None:
    assert modules["again"] == {"kept": False, "reason": "it is being improved already"}


def test_a_release_that_comes_while_it_is_improved_waits_and_is_waited_for(modules: Any) -> None:
    during, before = modules["rebased"]
    assert during == {
        "kept": True,
        "done": ["improved", "rebased"],
        "versions": ["1", "1+local"],
    }
    assert before["done"] == ["rebased", "improved"]
    assert before["versions"] == ["2", "1+local"]  # it begins from the release


def test_a_release_that_cannot_be_taken_up_leaves_all_as_it_was(modules: Any) -> None:
    found = modules["failing"]
    assert found["seen"][:3] == [
        ["ArtifactNotFoundError", "1+local", True, True],
        ["RangeError", "1+local", True, True],
        ["RangeError", "1+local", True, True],
    ]
    assert found["same"]


def test_learnt_state_goes_only_where_unreadable(
    modules: Any,
) -> None:
    found = modules["failing"]
    assert found["seen"][3:] == [
        ["rebased", "2", True, True],
        ["rebased", "1+local", True, True],  # it was there for another time
        ["rebased", "2", False, True],  # damaged
    ]
    assert found["erasures"] == 0  # nobody asked for it, so the searches are not risked


def test_a_page_that_stays_open_learns_from_nothing_that_expired(modules: Any) -> None:
    assert modules["expired"] == [len(SEARCHES), 0, "8 opened results are needed"]


def test_the_gateway_that_cannot_be_told_is_not_left(modules: Any) -> None:
    assert modules["left"] == [
        ["joined", True, 1],
        ["ArtifactError", True, 1],
        ["left", False, 0],
        ["left", False, 0],
    ]


@browser
def test_learning_is_usable_by_keyboard_and_screen_reader(learned: Any) -> None:
    assert (
        learned["consented"]["focus"] == "learn-title"
    )  # the button is gone; not lost in the page
    assert learned["improved"]["focus"] == "improve"
    assert 'region "Learn from what I open"' in learned["before"]["tree"]
    for said in (
        'button "Improve the search"',
        'button "Undo the improvement"',
        "- status: Improved",
    ):
        assert said in learned["tree"]
    assert not learned["wide"]  # on a phone
