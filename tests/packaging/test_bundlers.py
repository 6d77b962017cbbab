"""The JavaScript package in other people's tools: bundlers, test runners, TypeScript.

An app (``sdk/js/test/bundlers``) loads the built-in encoder and a bundle by its address, and opens
an index, in the page and in workers. It is built, opened in Chromium, and must show what Python
finds, also once its server is stopped. The tools are installed from npm into ``build/bundlers``, as
the lock file says.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any, NamedTuple
from urllib.parse import quote
from urllib.request import urlopen

import numpy as np
import pytest

from pocketquery import sdk
from tests.packaging.wheels import ROOT

PACKAGE = ROOT / "sdk" / "js"
APPS = PACKAGE / "test" / "bundlers"
# One a process: a module's tests may be shared between two.
PLACE = ROOT / "build" / f"bundlers-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
BIN = PLACE / "node_modules" / ".bin"
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
QUERY = "how do I get a refund"
TEXTS = {
    "garden": "In March I planted beans and radishes beside the old wall.",
    "printer": "Error 0x61: clean the print head and restart the printer.",
    "refund": "To return an item and have your money back, write to support within thirty days.",
    "sugar": "Green leaves turn light, water and carbon dioxide into glucose.",
}

is_built = (PACKAGE / "dist" / "web.js").exists() and shutil.which("npm") is not None
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not is_built, reason="sdk/js is not built: npm ci && npm run build"),
]


class Site(NamedTuple):
    """A server of a page."""

    address: str
    stop: Callable[[], None]


@pytest.fixture(scope="module")
def apps() -> Path:
    """The apps with their tools, the package as it is published, and what the pages fetch."""
    PLACE.mkdir(parents=True, exist_ok=True)
    for path in PLACE.iterdir():
        if path.name not in ("node_modules", "installed.json"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.copytree(APPS, PLACE, dirs_exist_ok=True, ignore=shutil.ignore_patterns("node_modules"))
    lock, installed = PLACE / "package-lock.json", PLACE / "installed.json"
    if not installed.exists() or installed.read_bytes() != lock.read_bytes():
        run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
        shutil.copy(lock, installed)
    run("npm", "pack", "--ignore-scripts", "--pack-destination", str(PLACE), folder=PACKAGE)
    (packed,) = PLACE.glob("pocketquery-*.tgz")
    target = PLACE / "node_modules" / "pocketquery"
    shutil.rmtree(target, ignore_errors=True)
    shutil.unpack_archive(packed, PLACE / "unpacked", "gztar")
    (PLACE / "unpacked" / "package").rename(target)
    public = PLACE / "public"
    shutil.copytree(ROOT / "conformance" / "encoder" / "tiny", public / "bundle")
    encoder = sdk.load()
    documents = [sdk.Document(id, text) for id, text in TEXTS.items()]
    index = public / "index"
    with sdk.create_index(index, space_id=encoder.space_id, dimension=encoder.dimension) as built:
        built.add(documents, encoder.encode(list(TEXTS.values())))
    shutil.copytree(public, PLACE / "next" / "public", dirs_exist_ok=True)
    return PLACE


def test_a_page_built_by_webpack_kept_by_workbox(apps: Path) -> None:
    out = apps / "built" / "webpack"
    shown = run(apps, "webpack", "--output-path", str(out)).stdout
    assert "WARNING" not in shown, shown
    page(apps, out, script="main.js")
    run("node", "sw.mjs", str(out))
    check(opened(out, apps / "public"))
    check_kept(out, apps / "public")


@pytest.mark.parametrize("bundler", ["rollup", "esbuild"])
def test_a_page_for_which_the_encoder_is_copied(apps: Path, bundler: str) -> None:
    """These know no addresses of packages: the package's command copies the files."""
    out = apps / "built" / bundler
    if bundler == "rollup":
        run(apps, "rollup", "--config")
    else:
        entries = ["copied.js", "encoder_worker.js", "search_worker.js", "worker.js"]
        options = ["--bundle", "--splitting", "--format=esm", f"--outdir={out}"]
        run(apps, "esbuild", *entries, *options)
    package = json.loads((apps / "node_modules" / "pocketquery" / "package.json").read_bytes())
    command = apps / "node_modules" / "pocketquery" / package["bin"]["pocketquery-copy-default"]
    run("node", str(command), str(out / "encoder"))
    page(apps, out, script="copied.js")
    run("node", "sw.mjs", str(out))
    check(opened(out, apps / "public"))
    check_kept(out, apps / "public")


def test_a_page_built_by_vite_whose_service_worker_keeps_every_file(apps: Path) -> None:
    """The service worker is the one that Vite's plugin writes; no request but for what it has."""
    run(apps, "vite", "build", "--outDir", "built/vite", environment={"WITH_FILES": "1"})
    out = apps / "built" / "vite"
    found = opened(out, kept=True)
    check(found)
    assert {request["method"] for request in found["requests"]} == {"GET"}
    paths = {request["path"].strip("/") for request in found["requests"]}
    assert sorted(path for path in paths if not (out / path).is_file()) == []


def test_a_page_built_by_vite_as_a_web_app(apps: Path) -> None:
    """Vite's plugin as it is, which keeps scripts and pages; ``cache: true`` keeps the rest."""
    run(apps, "vite", "build", "--outDir", "built/vite-pwa")
    out = apps / "built" / "vite-pwa"
    worker = (out / "sw.js").read_text()
    assert "index.html" in worker
    assert ".onnx" not in worker
    check_kept(out)


def test_a_page_that_vite_serves_while_it_is_written(apps: Path) -> None:
    # Nothing prepared of an earlier package.
    with running(apps, "vite", "--force", "--host", "127.0.0.1", "--strictPort") as site:
        check(open_page(site, "index.html"))


@pytest.mark.parametrize("bundler", ["webpack", "turbopack"])
def test_an_app_of_next_exported(apps: Path, bundler: str) -> None:
    """Rendered while it is built, where a route encodes, and opened in the browser."""
    environment = {"NEXT_TELEMETRY_DISABLED": "1", "OUT": f"out-{bundler}"}
    run(apps / "next", "next", "build", f"--{bundler}", environment=environment)
    out = apps / "next" / f"out-{bundler}"
    assert is_like_python(json.loads((out / "first").read_bytes()))
    run("node", "sw.mjs", str(out), "/workers.js")
    check(opened(out))
    check_kept(out)


@pytest.mark.parametrize("bundler", ["webpack", "turbopack"])
def test_an_app_of_next_that_a_server_renders(apps: Path, bundler: str) -> None:
    """A route of the running server encodes; the page searches, also once the server is stopped."""
    place = f"server-{bundler}"
    environment = {"NEXT_TELEMETRY_DISABLED": "1", "OUT": place, "SERVER": "1"}
    run(apps / "next", "next", "build", f"--{bundler}", environment=environment)
    run("node", "sw.mjs", place, folder=apps / "next")
    with running(apps / "next", "next", "start", environment=environment) as site:
        wait_for(site.address)
        with urlopen(f"{site.address}/now?text={quote(QUERY)}") as answer:
            assert is_like_python(json.load(answer))
        check(open_page(site))
        check_found(open_page(site, "#cache", kept=True))


@pytest.mark.parametrize(
    ("name", "options"), [("required", ""), ("imported", "--experimental-vm-modules")]
)
def test_jest(apps: Path, name: str, options: str) -> None:
    shown = run(apps / "jest", "jest", name, environment={"NODE_OPTIONS": options})
    assert "1 passed, 1 total" in shown.stderr


def test_vitest(apps: Path) -> None:
    run(apps, "vitest", "run", "--root", "vitest")


@pytest.mark.parametrize(
    ("version", "module", "resolution"),
    [("5.0", "nodenext", "nodenext"), ("5.9", "esnext", "bundler")],
)
def test_typescript(apps: Path, version: str, module: str, resolution: str) -> None:
    compiler = apps / "node_modules" / f"typescript-{version}" / "bin" / "tsc"
    settings = {
        "module": module,
        "moduleResolution": resolution,
        "target": "es2022",
        "lib": ["es2022", "dom"],
        "types": ["node"],
        "strict": True,
        "exactOptionalPropertyTypes": True,
        "skipLibCheck": False,
        "noEmit": True,
    }
    config = {"compilerOptions": settings, "files": ["app.ts"]}
    (apps / "typescript" / "tsconfig.json").write_text(json.dumps(config))
    run("node", str(compiler), "-p", "typescript")


def page(apps: Path, out: Path, script: str) -> None:
    """Write the page of an app whose bundler writes scripts alone."""
    text = (apps / "index.html").read_text().replace("./main.js", f"./{script}")
    (out / "index.html").write_text(text)


def check(found: Mapping[str, Any]) -> None:
    """Hold what the page shows to Python."""
    assert check_found(found)["golden"] == 16


def check_kept(*folders: Path) -> None:
    """What the page shows with ``cache: true``, the same once its server is stopped."""
    check_found(opened(*folders, kept=True, place="index.html#cache"))


def check_found(found: Mapping[str, Any]) -> Mapping[str, Any]:
    assert found["shown"].startswith("{"), found["shown"]
    shown: dict[str, Any] = json.loads(found["shown"])
    vectors = [shown["vector"], shown["workerVector"]]
    assert all(map(is_like_python, vectors))
    with sdk.open_index(PLACE / "public" / "index", encoder=sdk.load()) as index:
        hit = index.search(QUERY, k=1)[0].id
    hits = {"hit": hit, "workerHit": hit, "ownWorkerHit": hit, "note": "note", "dimension": 16}
    assert {name: shown[name] for name in hits} == hits
    return shown


@functools.cache
def python_vector() -> np.ndarray[Any, np.dtype[np.float32]]:
    return sdk.load().encode_query(QUERY)


def is_like_python(vector: list[float]) -> bool:
    return bool(np.asarray(vector) @ python_vector() > 0.9999)


def opened(*folders: Path, kept: bool = False, place: str = "index.html") -> Mapping[str, Any]:
    """What the page in the first of ``folders`` shows, which are served as one."""
    with served(*folders) as site:
        return open_page(site, place, kept=kept)


def open_page(site: Site, place: str = "", *, kept: bool = False) -> Mapping[str, Any]:
    """What the page shows; where it is ``kept``, the same once its server is stopped."""
    if not Path(CHROMIUM).exists():
        pytest.skip("built, and not opened: no Chromium")
    address = f"{site.address}/{place}"
    wait_for(address)
    words = ["node", "open.mjs", CHROMIUM, address, *(["kept"] if kept else [])]
    with subprocess.Popen(
        words, cwd=PLACE, text=True, stdin=PIPE, stdout=PIPE, stderr=PIPE
    ) as browser:
        if kept and browser.stdout and browser.stdout.readline() == "ready\n":
            site.stop()
        shown, errors = browser.communicate("\n" if kept else None)
    assert browser.returncode == 0, f"{shown}\n{errors}"
    found: Mapping[str, Any] = json.loads(shown)
    return found


def wait_for(address: str) -> None:
    for _ in range(600):
        with contextlib.suppress(OSError), urlopen(address):
            return
        time.sleep(0.1)
    pytest.fail(f"{address} does not answer")


class _Handler(SimpleHTTPRequestHandler):
    folders: tuple[Path, ...]

    def translate_path(self, path: str) -> str:
        name = path.split("?")[0].strip("/")
        return str(next((one / name for one in self.folders if (one / name).is_file()), "/nowhere"))

    def log_message(self, *arguments: object) -> None:
        pass


@contextlib.contextmanager
def served(*folders: Path) -> Iterator[Site]:
    handler = type("_Served", (_Handler,), {"folders": folders})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()

        def stop() -> None:
            server.shutdown()
            server.server_close()

        try:
            yield Site(f"http://127.0.0.1:{server.server_address[1]}", stop)
        finally:
            stop()


@contextlib.contextmanager
def running(
    folder: Path, tool: str, *options: str, environment: Mapping[str, str] = {}
) -> Iterator[Site]:
    """A tool's own server."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [str(BIN / tool), *options, "--port", str(port)]
    everything = os.environ | dict(environment)
    process = subprocess.Popen(
        command, cwd=folder, env=everything, stdout=DEVNULL, start_new_session=True
    )

    def stop() -> None:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)  # the tool, and what it started
        process.wait()

    try:
        yield Site(f"http://127.0.0.1:{port}", stop)
    finally:
        stop()


def run(
    first: Path | str, *command: str, folder: Path = PLACE, environment: Mapping[str, str] = {}
) -> subprocess.CompletedProcess[str]:
    """Run a program, or, behind a folder, one of the tools there; the test fails where it does."""
    if isinstance(first, Path):
        folder, words = first, [str(BIN / command[0]), *command[1:]]
    else:
        words = [first, *command]
    everything = os.environ | dict(environment)
    done = subprocess.run(words, cwd=folder, env=everything, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout}\n{done.stderr}"
    return done
