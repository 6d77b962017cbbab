from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pocketquery import sdk
from pocketquery.sdk.bundle.bundle import pack
from pocketquery.sdk.bundle.signature import public_key_of
from pocketquery.sdk.errors import ArtifactNotFoundError, SignatureError
from tests.sdk.tiny_bundle import trained_adapter, write_tiny_bundle

PRIVATE = bytes(range(32))


@pytest.fixture(autouse=True)
def no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POCKETQUERY_BUNDLE", raising=False)


def test_the_module_encodes_with_the_bundle_loaded_last(tiny_bundle: Path, tmp_path: Path) -> None:
    other = write_tiny_bundle(tmp_path / "other", adapter=trained_adapter())
    first = sdk.load(tiny_bundle)
    assert np.array_equal(sdk.encode("the sea"), first.encode("the sea"))
    second = sdk.load(other)
    assert np.array_equal(sdk.encode("the sea"), second.encode("the sea"))
    assert np.array_equal(sdk.encode_query(["the sea"]), second.encode_query(["the sea"]))
    assert np.array_equal(
        sdk.encode("the sea", prompt_name="query"), second.encode("query: the sea")
    )


def test_the_variable_wins_and_may_change(
    tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = write_tiny_bundle(tmp_path / "other", adapter=trained_adapter())
    first, second = sdk.load(tiny_bundle), sdk.load(other)
    monkeypatch.setenv("POCKETQUERY_BUNDLE", str(tiny_bundle))
    assert np.array_equal(sdk.encode("the sea"), first.encode("the sea"))
    monkeypatch.setenv("POCKETQUERY_BUNDLE", str(other))
    assert np.array_equal(sdk.encode("the sea"), second.encode("the sea"))
    monkeypatch.setenv("POCKETQUERY_BUNDLE", str(tmp_path / "absent"))
    with pytest.raises(ArtifactNotFoundError, match="absent"):
        sdk.encode("the sea")


def test_with_neither_the_error_says_how() -> None:
    code = "from pocketquery import sdk; sdk.encode('the sea')"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={"PATH": ""}
    )
    assert "POCKETQUERY_BUNDLE is not set and nothing was loaded" in result.stderr


def test_a_zip_gives_the_same_vectors(tiny_bundle: Path, tmp_path: Path) -> None:
    pack(tiny_bundle, tmp_path / "b.zip")
    zipped, plain = sdk.load(tmp_path / "b.zip"), sdk.load(tiny_bundle)
    assert np.array_equal(zipped.encode("the sea"), plain.encode("the sea"))


def test_a_key_demands_a_signature(tiny_bundle: Path, tmp_path: Path) -> None:
    public = public_key_of(PRIVATE)
    with pytest.raises(SignatureError, match="found no signature"):
        sdk.load(tiny_bundle, public_key=public)
    signed = write_tiny_bundle(tmp_path / "signed", signing_key=PRIVATE)
    assert sdk.load(signed, public_key=public).name == "tiny"
