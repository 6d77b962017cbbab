"""The documentation as a site: built without a warning, whole by itself, and searched as files."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.packaging.test_documents import ROOT, site_links

LOADED = {"script", "link", "img", "iframe", "source", "audio", "video", "object", "embed"}


class References(HTMLParser):
    """What a page loads, and where its links lead."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.feed(page.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src", "data") and value:
                (self.loaded if tag in LOADED else self.links).append(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if find_spec("mkdocs") is None:
        pytest.skip('needs: pip install -c constraints.txt ".[docs]"')
    folder = tmp_path_factory.mktemp("documentation") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    return folder


@pytest.mark.slow
def test_nothing_is_loaded_from_another_host(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 40
    for page in pages:
        outside = [one for one in References(page).loaded if urlsplit(one).netloc]
        assert not outside, f"{page.relative_to(site)} loads {outside}"
        assert 'class="mermaid"' not in page.read_text("utf-8")  # the theme would fetch a script
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(?:https?:)?//|@import", style.read_text("utf-8")), style


@pytest.mark.slow
def test_the_reference_shows_docstrings_as_people_read_them(site: Path) -> None:
    shown = {page.stem: page.read_text("utf-8") for page in (site / "reference").glob("*.html")}
    assert {"sdk", "client", "server", "distill", "export"} <= shown.keys()
    assert not [name for name, text in shown.items() if re.search(r":(?:class|func|meth):", text)]
    assert "The query encoder" in shown["index"] or "open, encode, search" in shown["index"]
    assert 'id="pocketquery.sdk.open_index"' in shown["sdk"]
    assert 'id="pocketquery.client.store.store.QueryStore.give_consent"' in shown["client"]


@pytest.mark.slow
def test_every_link_leads_to_a_file_of_the_site(site: Path) -> None:
    for page in site.rglob("*.html"):
        if page.name == "404.html":  # is shown at any address, so its links begin at the root
            continue
        references = References(page)
        for one in references.loaded + references.links:
            parts = urlsplit(one)
            if parts.scheme or parts.netloc or not parts.path:
                continue
            target = page.parent / unquote(parts.path)
            assert target.exists(), f"{page.relative_to(site)} leads to {one}"


@pytest.mark.slow
def test_pages_opened_as_files_can_be_searched(site: Path, tmp_path: Path) -> None:
    chromium = shutil.which(os.environ.get("CHROMIUM", "chromium"))
    if chromium is None:
        pytest.skip("no Chromium here")
    command = [chromium, "--headless=new", "--no-sandbox", "--disable-gpu"]
    command += [f"--user-data-dir={tmp_path}", "--virtual-time-budget=10000", "--dump-dom"]
    page = (site / "how-to" / "pilot.html").as_uri() + "?q=quarantine"
    shown = subprocess.run([*command, page], capture_output=True, text=True, timeout=120)
    assert re.search(r"md-search-result__meta\">[1-9]\d* matching documents", shown.stdout)
    assert "One bad client" in shown.stdout


def test_links_to_the_repository_become_pages_of_the_site() -> None:
    module = site_links()
    page = ROOT / "docs" / "how-to" / "pilot.md"
    text = "[a](../../examples/quickstart.py#x) [b](../federation.md) [c](https://x.org/y)"
    text += "\n```sh\n[a](../../README.md)\n```\n[d](../../benchmarks) [e](missing.md)"
    assert module.rewritten(text, page, "how-to/pilot.md") == (
        "[a](../repository/examples/quickstart.py.md#x) [b](../federation.md) [c](https://x.org/y)"
        "\n```sh\n[a](../../README.md)\n```\n"
        "[d](../repository/benchmarks/README.md) [e](missing.md)"
    )
    assert module.page_of(ROOT / "Makefile").startswith("# Makefile\n\n````text\n")
    found = module.reachable()
    assert found["repository/CHANGELOG.md"] == ROOT / "CHANGELOG.md"  # from the README
    assert all(path.exists() for path in found.values())
