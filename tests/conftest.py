"""Settings of every test process: quiet libraries, one thread, no network."""

from __future__ import annotations

import os

# Before any library reads them. The models of the tests are so small that threads only wait for
# each other, and a hub must never be asked.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ["HF_HUB_OFFLINE"] = "1"
