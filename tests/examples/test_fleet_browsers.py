"""Two search pages in real browsers take part in a round, and search with what it releases.

First at a real gateway with the server's driver in this process and no gate: a tiny encoder of
random weights gains nothing that a gate could be sure of. Then examples/fleet/run_browsers.py
whole, with Flower and the gate: on the README's ``trainable`` and ``demo/index`` where they lie in
the checkout, and there a release must come of it; else on the tiny encoder, as far as the gate.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from serve_gateway import serving
from test_rounds import KEY, through

from pocketquery.sdk.bundle.signature import public_key_of
from pocketquery.sdk.cli import main
from pocketquery.sdk.serving.site import Site
from pocketquery.server.federation.releases.registry import Registry
from tests.examples.test_deployment import running
from tests.examples.web_scripts import CHROMIUM, PLAYWRIGHT, ROOT, browser, built
from tests.server.federation.small_federation import Files, opened, write_federation
from tests.tiny_models import sentences

FLEET = ROOT / "examples" / "fleet"
TRAINABLE, INDEX = ROOT / "trainable", ROOT / "demo" / "index"
QUERIES = ROOT / "packages/pocketquery-demo/pocketquery_demo/data/queries.tsv.gz"
SPKI = bytes.fromhex("302a300506032b6570032100")
ROUND = {
    "rounds": 1,
    "clients-per-round": 2,
    "over-selection": 1.0,
    "least-replies": 2,
    "aggregation": "mean",
    "steps": 10,
    "batch-size": 16,
    "learning-rate": 0.003,
    "deadline": 300.0,
    "gateways": 1,
    "signing-key": KEY,
}

pytestmark = [pytest.mark.very_slow, pytest.mark.timeout(1800), built, browser]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return write_federation(tmp_path_factory.mktemp("browsers") / "federation")


@pytest.fixture(scope="module")
def pages(files: Files) -> Any:
    """What the users of both pages saw."""
    folder = Path(os.environ.get("POCKETQUERY_PICTURES") or files.folder) / "pages"
    folder.mkdir(parents=True, exist_ok=True)
    found = folder / "browsers.json"
    found.unlink(missing_ok=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    page = f"http://127.0.0.1:{port}"
    key = folder / "key.pem"
    key.write_bytes(pem(public_key_of(KEY)))
    started: list[subprocess.Popen[str]] = []
    with (
        serving(files.folder / "gateway", origins=[page], **{"poll-seconds": 1}) as gateway,
        opened(files, files.folder / "server", **ROUND) as parts,
    ):
        command: list[str | Path] = [sys.executable, FLEET.parent / "web" / "serve.py"]
        command += ["--bundle", files.bundle, "--index", files.index, "--port", str(port)]
        command += ["--gateway", gateway.url, "--release-key", key]
        settings = folder / "settings.json"
        texts = sentences(80)
        settings.write_text(
            json.dumps(
                {
                    "playwright": str(PLAYWRIGHT),
                    "chromium": CHROMIUM,
                    "page": f"{page}/",
                    "searches": [texts[0:36], texts[40:76]],
                    "output": str(folder),
                    "seconds": 300,
                }
            )
        )
        try:
            for one in (command, ["node", FLEET / "browsers.mjs", settings]):
                started.append(
                    subprocess.Popen(list(map(str, one)), stdout=subprocess.PIPE, text=True)
                )
                assert started[-1].stdout is not None
                assert started[-1].stdout.readline() != ""  # the address; that both take part
            reports = through(parts, [gateway])
            assert [one.accepted for one in reports] == [2]
            end = time.monotonic() + 300
            while not found.exists() and started[1].poll() is None and time.monotonic() < end:
                time.sleep(0.2)
        finally:
            for process in reversed(started):
                process.terminate()
                process.wait(timeout=60)
                if process.stdout is not None:
                    process.stdout.close()
    log = (files.folder / "gateway" / "log.jsonl").read_text()
    assert not any(text in log for text in texts)
    return json.loads(found.read_text(encoding="utf-8"))["pages"]


def pem(key: bytes) -> bytes:
    text = base64.b64encode(SPKI + key)
    return b"-----BEGIN PUBLIC KEY-----\n" + text + b"\n-----END PUBLIC KEY-----\n"


def test_a_page_may_ask_its_own_server_and_the_gateway_alone(
    files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = Site(files.bundle, files.index)
    assert "connect-src 'self';" in plain.headers["Content-Security-Policy"]
    assert b'"rounds": null' in plain.script()
    site = Site(files.bundle, files.index, gateway="https://gateway.test:8443")
    assert (
        "connect-src 'self' https://gateway.test:8443;" in (site.headers["Content-Security-Policy"])
    )
    assert b'"rounds": {"gateway": "https://gateway.test:8443", "publicKey": null}' in site.script()
    for wrong in ("https://a/path", "https://a; script-src *", "gateway", "https://a b"):
        assert main(["serve", "--index", str(files.index), "--gateway", wrong]) == 2
        assert "expected https://host" in capsys.readouterr().err


def test_both_updates_count(pages: Any) -> None:
    assert [one["last"] for one in pages] == ["round 1: a change was sent and counts"] * 2
    assert [one["errors"] for one in pages] == [[], []]


def test_both_pages_search_with_the_release_also_when_they_are_opened_again(pages: Any) -> None:
    check_released(pages)


def check_released(pages: Any) -> None:
    for page in pages:
        assert page["before"] == "version 1, the publisher's first"
        assert page["after"].startswith("version 2, released by rounds; ")
        assert page["reloaded"] == page["after"]
        assert page["moved"] > 1e-6  # mean of 1 - cos of the vectors of the golden texts
        before, after = page["results"]
        assert before != after  # a mistyped search, by meaning


def test_the_example_runs_whole(files: Files, tmp_path: Path) -> None:
    real = TRAINABLE.is_dir() and INDEX.is_dir()
    queries = tmp_path / "queries.tsv"
    queries.write_bytes(gzip.decompress(QUERIES.read_bytes()) if real else tiny_queries())
    arguments = ["--bundle", TRAINABLE, "--index", INDEX]
    if not real:
        arguments = ["--bundle", files.bundle, "--index", files.index]
    output = Path(os.environ.get("POCKETQUERY_PICTURES") or tmp_path) / "browsers"
    shutil.rmtree(output, ignore_errors=True)
    arguments += ["--queries", queries, "--output", output]
    command = [sys.executable, str(FLEET / "run_browsers.py"), *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=1500, check=False)
    assert running(str(output)) == []
    rounds = json.loads((output / "server" / "rounds.json").read_text())["rounds"]
    assert [(one["asked"], one["accepted"]) for one in rounds] == [(2, 2)], result.stderr
    assert '"accepted":2' in (output / "logs" / "browsers.log").read_text()
    again = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (again.returncode, again.stderr.count("name another --output")) == (2, 1)
    if not real and not rounds[0]["gate"]["accepted"]:
        assert result.returncode == 1
        assert "The gate passed no release" in result.stdout
        return
    assert result.returncode == 0, result.stdout + result.stderr
    assert Registry.open(output / "server" / "releases").current().version == "2"
    check_released(json.loads((output / "browsers.json").read_text(encoding="utf-8"))["pages"])
    for number in range(2):
        for what in ("asked", "released"):
            assert (output / f"page-{number}-{what}.png").stat().st_size > 10_000


def tiny_queries() -> bytes:
    texts = sentences(120)
    return "".join(f"q{number}\t{text}\n" for number, text in enumerate(texts)).encode()
