"""The search page with a bundle and an index, as files of a list at 127.0.0.1.

Only files of the list are served, so no path leads out of the folders. ``site.js`` tells the page
and its service worker that list, with every file's SHA-256: what was changed on disk is another
file. It names the headers, too, which the service worker sends in this server's place. Beside them
``open/PATH`` is a file of the folder that the index was made of, where the index names it.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pocketquery.sdk.errors import ArtifactNotFoundError
from pocketquery.sdk.files import real_path
from pocketquery.sdk.index.index import open_index
from pocketquery.sdk.index.info import read_info
from pocketquery.sdk.plain_files import open_plain
from pocketquery.sdk.text_folders.decoding import decode
from pocketquery.sdk.text_folders.outline import UnreadError

__all__ = ["Site", "make_server"]

PAGE = Path(__file__).resolve().with_name("web")
PACKAGE = PAGE.parents[1] / "js"
BUILT = (
    "this install was built without the page's scripts, which published wheels have. In a "
    "checkout, with Node 20 or later: (cd sdk/js && npm ci && npm run build) && pip install ."
)
PAGES = (
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
RUNTIME = ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm")
SDK = (
    "web.js",
    "runtime/runtime.js",
    "rpc.js",
    "index/index.js",
    "words/analyzer.js",
    "store.js",
    "training.js",
    "gateway.js",
)  # what the page's modules import
# Once the user wants to learn: a search needs neither the training step nor onnxruntime.
LATER = {"bundle/train_step.onnx", "bundle/train_state.safetensors"} | {
    f"onnxruntime/{name}" for name in RUNTIME
}
STEMMERS = "sdk/words/stemmers/"  # a file a language; the index has one, and others are rare in it
MOST_PACKED = 256  # contents that are remembered
PACKED = (".wasm", ".onnx", ".html", ".css", ".js", ".mjs", ".json", ".sqlite")
IMPORT = re.compile(r"""(?:from|import)\s*\(?\s*["'](\.{1,2}/[^"']+)["']""")
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
    "Cross-Origin-Resource-Policy": "same-origin",  # else another page could run site.js
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
NAMES = ("127.0.0.1", "localhost")
OPEN = "open/"
# A user's own file, beside a page that searches: it runs nothing, and reaches nothing.
OPENED = {"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox"}


class Site:
    """The files of the page by address, with their hashes."""

    def __init__(
        self,
        bundle: Path,
        index: Path,
        public_key: Path | None = None,
        *,
        page: Path = PAGE,
        texts: Path | None = None,
        gateway: str | None = None,
        release_key: Path | None = None,
    ) -> None:
        """Take the bundle's and the index's folders, and look for the page.

        Args:
            bundle: of the query encoder.
            index: of the same space.
            public_key: a PEM file; the page accepts only what its private half signed.
            page: the folder of the page's own files.
            texts: the folder that the index was made of, to open files of.
            gateway: of federated rounds, as ``https://host[:port]``.
            release_key: a PEM file: whose releases of those rounds to take.

        Raises:
            ArtifactNotFoundError: one of them is not there; says what to do.
        """
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
        self._page, self._texts = existing(page, "index.html", BUILT), texts
        dist = existing(PACKAGE / "dist", "web.js", BUILT)
        self._fixed = {name: self._page / name for name in PAGES}
        # 14 MB, for learning alone: a wheel has none of it.
        runtime = PACKAGE / "node_modules" / "onnxruntime-web" / "dist"
        if (runtime / RUNTIME[0]).is_file():
            self._fixed |= {f"onnxruntime/{name}": runtime / name for name in RUNTIME}
        elif gateway:
            raise ArtifactNotFoundError(
                f"{runtime / RUNTIME[0]} is not there, with which pages learn for a gateway; it "
                "is in a checkout: pip install -e . there, npm ci && npm run build in sdk/js"
            )
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
        needed = ("stemmers", read_info(self._folders["index"]).language)
        files = {
            name: {"sha256": self.sha256(path), "bytes": path.stat().st_size}
            | ({"later": True} if _is_for_later(name, needed) else {})
            for name, path in self.files().items()
        }
        site = {
            "files": files,
            "headers": self.headers,
            "publicKey": self._key,
            "rounds": self._rounds,
            "opens": self._texts is not None,
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
            return (self._page / name).read_bytes()
        path = self.files().get(name or "index.html")
        return None if path is None else path.read_bytes()

    def open(self, name: str) -> tuple[bytes, str] | None:
        """A file that the index names, and its type; None where it names none, or it is gone.

        What is text is sent as plain text in UTF-8, HTML too; the rest is for the browser to keep.
        """
        if self._texts is None:
            return None
        with open_index(self._folders["index"]) as index:
            if all(document.metadata.get("path") != name for document in index.documents()):
                return None
        root = real_path(self._texts)
        path = real_path(root / name)  # a link may lead out
        if not path.is_relative_to(root) or not path.is_file():
            return None
        with open_plain(path) as file:
            data = file.read()
        try:
            return decode(data).encode(), "text/plain; charset=utf-8"
        except UnreadError:
            is_pdf = path.suffix.lower() == ".pdf"
            return data, "application/pdf" if is_pdf else "application/octet-stream"


def _is_for_later(name: str, stemmers: Sequence[str]) -> bool:
    """Whether the page is whole without the file, until it asks for it."""
    is_stemmer = name.startswith(STEMMERS)
    return name in LATER or (is_stemmer and Path(name).stem not in stemmers)


def existing(folder: Path, file: str, advice: str) -> Path:
    """``folder``, resolved, where ``file`` lies in it."""
    if not (folder / file).is_file():
        raise ArtifactNotFoundError(f"{folder / file} is not there; {advice}")
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
        if name.startswith(OPEN) and (opened := self.site.open(name.removeprefix(OPEN))):
            self.answer(200, opened[0], "", "", type=opened[1], headers=self.site.headers | OPENED)
            return
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

    def answer(
        self,
        status: int,
        data: bytes,
        suffix: str,
        tag: str,
        encoding: str = "",
        *,
        type: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Send it, the body only where it was asked for."""
        self.send_response(status)
        for name, value in (headers or self.site.headers).items():
            self.send_header(name, value)
        if tag:
            self.send_header("ETag", tag)
        if encoding:
            self.send_header("Content-Encoding", encoding)
        if suffix in PACKED:
            self.send_header("Vary", "Accept-Encoding")
        if status != 304:
            self.send_header("Content-Type", type or TYPES.get(suffix, "application/octet-stream"))
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, format: str, *arguments: object) -> None:
        """Nobody's visit is recorded."""


def make_server(site: Site, port: int = 0) -> ThreadingHTTPServer:
    """A server on 127.0.0.1 for ``serve_forever``; port 0 takes a free one."""
    return ThreadingHTTPServer(("127.0.0.1", port), partial(Handler, site))
