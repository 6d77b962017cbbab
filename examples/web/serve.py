"""Serve the search page with a bundle and an index, on this machine alone.

    python examples/web/serve.py [--bundle demo/bundle] --index demo/index

It is ``pocketquery serve``; beside a changed copy of ``sdk/serving/web`` it serves that.
"""

import sys
from pathlib import Path

from pocketquery.sdk.cli import main

if __name__ == "__main__":
    here = Path(__file__).resolve().parent
    changed = ["--page", str(here)] if (here / "index.html").is_file() else []
    sys.exit(main(["serve", *changed, *sys.argv[1:]]))
