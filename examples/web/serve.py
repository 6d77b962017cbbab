"""Serve the search page with a bundle and an index, on this machine alone.

    python examples/web/serve.py [--bundle demo/bundle] --index demo/index

With ``--gateway URL`` the page asks whether it may take part in federated rounds through that
gateway. Only files of a list are served, so no path leads out of the folders. ``site.js`` tells the
page and its service worker that list, with every file's SHA-256: what was changed on disk is
another file. It names the headers, too, which the service worker sends in this server's place.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import re
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parents[1] / "sdk" / "js"
PAGE = (
    "index.html",
    "style.css",
    "icon.svg",
    "page.js",
    "results.js",
    "offline.js",
    "learning.js",
    "rounds.js",
    "worker.js",
    "learner.js",
    "participant.js",
    "trainer.js",
)
RUNTIME = (
    "ort.wasm.min.mjs",
    "ort-wasm-simd-threaded.mjs",
    "ort-wasm-simd-threaded.wasm",
)
SDK = (
    "web.js",
    "runtime/runtime.js",
    "rpc.js",
    "index/index.js",
    "index/analyzer.js",
    "store.js",
    "training.js",
    "gateway.js",
)  # what the page's modules import
# Once the user wants to learn: a search needs neither the training step nor onnxruntime.
LATER = {"bundle/train_step.onnx", "bundle/train_state.safetensors"} | {
    f"onnxruntime/{name}" for name in RUNTIME
}
MOST_PACKED = 256  # contents that are remembered
PACKED = (".wasm", ".onnx", ".html", ".css", ".js", ".mjs", ".json", ".sqlite")
IMPORT = re.compile(r"""(?:from|import)\s*["'](\.{1,2}/[^"']+)["']""")
ORIGIN = re.compile(r"https?://[A-Za-z0-9.\[\]:-]+")
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".wasm": "application/wasm",
}
HEADERS = {
    "Cache-Control": "no-cache",  # the ETag says whether it is still the same
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; "
        "img-src 'self'; connect-src 'self'; worker-src 'self'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
NAMES = ("127.0.0.1", "localhost")


class Site:
    """The files of the page by address, with their hashes."""

    def __init__(
        self,
        bundle: Path,
        index: Path,
        public_key: Path | None = None,
        *,
        gateway: str | None = None,
        release_key: Path | None = None,
    ) -> None:
        """Raise FileNotFoundError with what to do, where something is missing."""
        releases = release_key or public_key
        self._rounds = gateway and {
            "gateway": gateway,
            "publicKey": releases.read_text(encoding="utf-8") if releases else None,
        }
        asked = f"connect-src 'self' {gateway}" if gateway else "connect-src 'self'"
        policy = HEADERS["Content-Security-Policy"].replace("connect-src 'self'", asked)
        self.headers = HEADERS | {"Content-Security-Policy": policy}
        self._folders = {
            "bundle": existing(bundle, "manifest.json", "pocketquery export writes a bundle"),
            "index": existing(index, "index.json", "pocketquery index builds one"),
        }
        self._key = public_key.read_text(encoding="utf-8") if public_key else None
        built = "run in sdk/js: npm ci && npm run build"
        dist = existing(PACKAGE / "dist", "web.js", built)
        runtime = PACKAGE / "node_modules" / "onnxruntime-web" / "dist"
        runtime = existing(runtime, RUNTIME[0], built)
        self._fixed = {name: HERE / name for name in PAGE}
        self._fixed |= {f"onnxruntime/{name}": runtime / name for name in RUNTIME}
        self._fixed |= {f"sdk/{path.relative_to(dist)}": path for path in imported(dist)}
        self._hashes: dict[Path, tuple[tuple[int, int], str]] = {}
        self._packed: dict[str, bytes] = {}
        self._packing = threading.Lock()

    def files(self) -> dict[str, Path]:
        """Every file by its address; the bundle's and the index's as they are now."""
        found = dict(self._fixed)
        for prefix, folder in self._folders.items():
            for path in sorted(folder.iterdir()):
                if path.is_file() and not path.name.startswith(".") and path.suffix != ".md":
                    found[f"{prefix}/{path.name}"] = path
        return found

    def sha256(self, path: Path) -> str:
        """Of the file's bytes; read again where its size or time changed."""
        status = path.stat()
        state = (status.st_mtime_ns, status.st_size)
        known = self._hashes.get(path)
        if known is None or known[0] != state:
            known = (state, hashlib.sha256(path.read_bytes()).hexdigest())
            self._hashes[path] = known
        return known[1]

    def script(self) -> bytes:
        """``site.js``: the list, for the page and for the service worker."""
        files = {
            name: {"sha256": self.sha256(path), "bytes": path.stat().st_size}
            | ({"later": True} if name in LATER else {})
            for name, path in self.files().items()
        }
        site = {
            "files": files,
            "headers": self.headers,
            "publicKey": self._key,
            "rounds": self._rounds,
        }
        return f"self.SITE = {json.dumps(site, sort_keys=True)};\n".encode()

    def tag(self, data: bytes) -> str:
        """An ETag; of the headers as well, since browsers keep the older policy on a 304."""
        sent = json.dumps(self.headers).encode()
        return f'"{hashlib.sha256(sent + data).hexdigest()}"'

    def packed(self, data: bytes) -> bytes:
        """``data`` compressed; each content once."""
        digest = hashlib.sha256(data).hexdigest()
        with self._packing:
            if digest not in self._packed:
                if len(self._packed) >= MOST_PACKED:
                    self._packed.clear()
                self._packed[digest] = gzip.compress(data, 6, mtime=0)
            return self._packed[digest]

    def read(self, name: str) -> bytes | None:
        """What lies at the address ``name``; None for what is not in the list."""
        if name == "site.js":
            return self.script()
        if name == "service_worker.js":
            return (HERE / name).read_bytes()
        path = self.files().get(name or "index.html")
        return None if path is None else path.read_bytes()


def existing(folder: Path, file: str, advice: str) -> Path:
    """``folder``, resolved, where ``file`` lies in it."""
    if not (folder / file).is_file():
        raise FileNotFoundError(f"{folder / file} is not there; {advice}")
    return folder.resolve()


def imported(dist: Path) -> Iterator[Path]:
    """The SDK's modules that the page imports, and what those import."""
    seen: set[Path] = set()
    waiting = [dist / name for name in SDK]
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        yield path
        text = path.read_text(encoding="utf-8")
        waiting += [(path.parent / name).resolve() for name in IMPORT.findall(text)]


class Handler(BaseHTTPRequestHandler):
    """GET and HEAD of the site's files."""

    protocol_version = "HTTP/1.1"
    server_version = "pocketquery"

    def __init__(self, site: Site, *arguments: object) -> None:
        self.site = site
        super().__init__(*arguments)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        """The file, or 304 where the browser has it."""
        # Another name that leads here is a page of somebody else's, asking for the documents.
        if self.headers.get("Host", "").partition(":")[0] not in NAMES:
            self.answer(421, b"this server answers at 127.0.0.1 and localhost only\n", ".txt", "")
            return
        name = unquote(urlsplit(self.path).path).removeprefix("/")
        data = self.site.read(name)
        if data is None:
            self.answer(404, b"not found\n", ".txt", "")
            return
        tag = self.site.tag(data)
        suffix = Path(name).suffix or (".html" if name == "" else "")
        if self.headers.get("If-None-Match") == tag:
            self.answer(304, b"", suffix, tag)
            return
        encoding = ""
        if suffix in PACKED and "gzip" in self.headers.get("Accept-Encoding", ""):
            packed = self.site.packed(data)
            if len(packed) < len(data):
                data, encoding = packed, "gzip"
        self.answer(200, data, suffix, tag, encoding)

    do_HEAD = do_GET

    def answer(self, status: int, data: bytes, suffix: str, tag: str, encoding: str = "") -> None:
        """Send it, the body only where it was asked for."""
        self.send_response(status)
        for name, value in self.site.headers.items():
            self.send_header(name, value)
        if tag:
            self.send_header("ETag", tag)
        if encoding:
            self.send_header("Content-Encoding", encoding)
        if suffix in PACKED:
            self.send_header("Vary", "Accept-Encoding")
        if status != 304:
            self.send_header("Content-Type", TYPES.get(suffix, "application/octet-stream"))
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, format: str, *arguments: object) -> None:
        """Nobody's visit is recorded."""


def origin(text: str) -> str:
    """An address without a path, as it stands in a header."""
    if not ORIGIN.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"found {text!r}, expected https://host or https://host:port"
        )
    return text


def make_server(site: Site, port: int = 0) -> ThreadingHTTPServer:
    """A server on 127.0.0.1 for ``serve_forever``; port 0 takes a free one."""
    return ThreadingHTTPServer(("127.0.0.1", port), partial(Handler, site))


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Serve the search page on this machine.")
    parser.add_argument(
        "--bundle",
        type=Path,
        default=HERE.parents[1] / "sdk" / "default",
        help="a query encoder's folder; default: the built-in one",
    )
    parser.add_argument("--index", type=Path, required=True, help="an index of the same space")
    parser.add_argument(
        "--public-key", type=Path, help="PEM file; both must be signed by its private half"
    )
    parser.add_argument("--gateway", type=origin, help="for federated rounds: https://host[:port]")
    parser.add_argument(
        "--release-key",
        type=Path,
        help="PEM file: whose releases to take (default: --public-key)",
    )
    parser.add_argument("--port", type=int, default=8000, help="0 takes a free one")
    options = parser.parse_args()
    try:
        site = Site(
            options.bundle,
            options.index,
            options.public_key,
            gateway=options.gateway,
            release_key=options.release_key,
        )
        server = make_server(site, options.port)
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"http://127.0.0.1:{server.server_port}/  (Ctrl+C ends it)", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
