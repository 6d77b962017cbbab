"""Settings of every test process: quiet libraries, one thread, no network."""

from __future__ import annotations

import os

from hypothesis import settings

# The same examples at every run, so that a change fails by its own fault. To look for new ones:
# HYPOTHESIS_PROFILE=search make test
settings.register_profile("same", derandomize=True)
settings.register_profile("search", derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

# Before any library reads them. The models of the tests are so small that threads only wait for
# each other, and a hub must never be asked.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ["HF_HUB_OFFLINE"] = "1"
