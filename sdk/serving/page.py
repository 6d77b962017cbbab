"""``pocketquery serve``: the search page for an index, on this machine alone."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from pocketquery.sdk.commands import Subparsers, add_bundle, add_command, add_index
from pocketquery.sdk.errors import InvalidInputError

if TYPE_CHECKING:
    from pocketquery.sdk.serving.site import Site

__all__ = ["serve"]

_ORIGIN = re.compile(r"https?://[A-Za-z0-9.\[\]:-]+")


def serve(subparsers: Subparsers) -> None:
    """Add ``pocketquery serve``."""
    parser = add_command(
        subparsers,
        "serve",
        "Serve the search page for an index, on this machine alone.",
        """\
examples:
  pocketquery serve
  pocketquery serve --index index --port 8080
  pocketquery serve --bundle demo/bundle --index demo/index

Encoder and index go to the browser, which searches by itself. Results open the files they are of.
""",
        _serve,
    )
    add = parser.add_argument
    add_index(parser)
    add_bundle(parser)
    add("--public-key", type=Path, metavar="PEM", help="bundle and index must be signed by it")
    add("--gateway", metavar="URL", help="for federated rounds: https://host[:port]")
    add("--release-key", type=Path, metavar="PEM", help="whose releases (default: --public-key)")
    add("--port", type=int, default=8000, help="0 takes a free one (default: 8000)")
    add("--page", type=Path, metavar="FOLDER", help="a changed copy of the page's own files")


def _serve(options: argparse.Namespace) -> int:
    from pocketquery.sdk.serving.site import make_server

    site = _site(options)
    try:
        server = make_server(site, options.port)
    except (OSError, OverflowError) as error:
        raise InvalidInputError(
            f"port {options.port} cannot be used ({error}); name another one with --port"
        ) from error
    print(f"http://127.0.0.1:{server.server_port}/  (Ctrl+C ends it)", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()
    return 0


def _site(options: argparse.Namespace) -> Site:
    from pocketquery.sdk.bundle.installed import BUNDLE_VARIABLE, DEFAULT, installed_bundle
    from pocketquery.sdk.index.index import open_index
    from pocketquery.sdk.indexing.default_index import bundle_for, searched_index
    from pocketquery.sdk.serving.site import PAGE, Site

    if options.gateway and not _ORIGIN.fullmatch(options.gateway):
        raise InvalidInputError(f"--gateway is {options.gateway!r}, expected https://host[:port]")
    place = searched_index(options.index)
    with open_index(place) as index:
        source = index.source
    bundle = bundle_for(place, options.bundle) or os.environ.get(BUNDLE_VARIABLE) or DEFAULT
    return Site(
        Path(installed_bundle(bundle) or bundle),
        place,
        options.public_key,
        page=options.page or PAGE,
        texts=source.root if source else None,
        gateway=options.gateway,
        release_key=options.release_key,
    )
