"""``python -m pocketquery.sdk`` is ``pocketquery``."""

from __future__ import annotations

import sys

from pocketquery.sdk.cli import main

if __name__ == "__main__":
    sys.exit(main())
