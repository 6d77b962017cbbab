"""Serve this folder's page with a bundle and an index, on this machine alone.

    python examples/web/serve.py [--bundle demo/bundle] --index demo/index

It is ``pocketquery serve`` with the page of this folder, so that a changed page can be tried.
"""

import sys
from pathlib import Path

from pocketquery.sdk.cli import main

if __name__ == "__main__":
    sys.exit(main(["serve", "--page", str(Path(__file__).resolve().parent), *sys.argv[1:]]))
