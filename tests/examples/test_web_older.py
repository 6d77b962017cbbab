"""The search page under an older service worker, and where the headers alone change."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.examples.web_scripts import PAGE, WEB, browser, built, seen
from tests.sdk.tiny_bundle import write_tiny_bundle, write_tiny_index

pytestmark = [pytest.mark.very_slow, pytest.mark.timeout(900), built, browser]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What web_older.mjs saw."""
    folder = tmp_path_factory.mktemp("web")
    versions = {}
    for name, heading in (("older", "Search as it was"), ("newer", "Search as it will be")):
        versions[name] = folder / name / "examples" / "web" / "serve.py"
        shutil.copytree(PAGE, versions[name].parent)
        shutil.copy(WEB / "serve.py", versions[name])
        page = versions[name].with_name("index.html")
        _change(page, "Search on this device</h1>", f"{heading}</h1>")
        last = versions[name].with_name("worker.js")  # of the files, by name
        last.write_text(f"{last.read_text(encoding='utf-8')}// {name}\n", encoding="utf-8")
    return seen(
        "web_older.mjs",
        **versions,
        site=[write_tiny_bundle(folder / "bundle"), write_tiny_index(folder / "index")],
        query="plants make sugar",
    )


def test_an_older_worker_goes_on_until_the_newer_is_let_in(found: Any) -> None:
    assert found["errors"] == []
    for visit in ("before", "under"):  # the older page with the older files, never a mixture
        assert found[visit]["heading"] == "Search as it was"
        assert found[visit]["titles"][0] == "Plants"
    for visit in ("after", "offline"):
        assert found[visit]["heading"] == "Search on this device"
        assert found[visit]["titles"] == found["before"]["titles"]
        assert found[visit]["caches"] == ["pocketquery-files"]
        assert set(found[visit]["kept"]) <= set(found[visit]["named"])  # what was kept then is gone
    assert not set(found["before"]["kept"]) <= set(found["after"]["named"])


def test_a_version_that_comes_while_another_is_let_in_is_kept_whole(found: Any) -> None:
    overtaken = found["overtaken"]
    assert overtaken["during"] == "Search as it was"
    assert overtaken["heading"] == "Search as it will be"  # without a network
    assert overtaken["titles"] == found["before"]["titles"]
    assert sorted(overtaken["kept"]) == sorted(set(overtaken["listed"]))  # and nothing else


def test_a_version_that_is_being_stored_when_the_page_looks_is_offered(found: Any) -> None:
    assert found["overtaken"]["uncontrolled"]  # which is when the page waits before it looks


def test_a_changed_policy_reaches_who_returns(found: Any) -> None:
    gateway = "http://localhost:9"
    loosened, tightened = found["policies"]
    asked = f"'self' {gateway}"
    assert loosened == {"page": asked, "worker": asked, "gateway": "not there"}
    assert tightened == {"page": "'self'", "worker": "'self'", "gateway": "blocked"}


def _change(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
