from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from pocketquery import sdk
from pocketquery.sdk.bundle.adapter import pack_adapter, read_adapter
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.bundle.signature import key_id, public_key_of
from pocketquery.sdk.bundle.writing import pack
from pocketquery.sdk.encoder import Encoder
from pocketquery.sdk.errors import ArtifactNotFoundError, InvalidInputError, SignatureError
from tests.sdk.tiny_bundle import PRIVATE, PUBLIC, trained_adapter, write_tiny_bundle


@pytest.fixture(autouse=True)
def no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POCKETQUERY_BUNDLE", raising=False)
    monkeypatch.delenv("POCKETQUERY_PUBLIC_KEY", raising=False)


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
    for use in (sdk.load, lambda: sdk.encode("the sea")):
        with pytest.raises(ArtifactNotFoundError, match=r"absent: .*POCKETQUERY_BUNDLE names it"):
            use()
    with pytest.raises(ArtifactNotFoundError) as caught:
        sdk.load(tmp_path / "elsewhere")
    assert "POCKETQUERY_BUNDLE" not in str(caught.value)


def test_arguments_are_those_of_an_encoder(tiny_bundle: Path) -> None:
    encoder = sdk.load(tiny_bundle)
    options: dict[str, Any] = {"truncate_dim": 3, "normalize_embeddings": False, "batch_size": 1}
    for ours, theirs in (
        (sdk.encode(["a", "b"], **options), encoder.encode(["a", "b"], **options)),
        (sdk.encode_query("a", **options), encoder.encode_query("a", **options)),
    ):
        np.testing.assert_array_equal(ours, theirs)
    with pytest.raises(InvalidInputError, match="the bundle is a int, expected a path"):
        sdk.load(cast(Any, 5))


@pytest.mark.parametrize("said", [None, "0"])
def test_onnxruntime_reports_on_nobody(tiny_bundle: Path, tmp_path: Path, said: str | None) -> None:
    """Unless it is asked to: it keeps a device id in the home folder, from some release on."""
    code = "import sys; from pocketquery import sdk; sdk.load(sys.argv[1]).encode('x')"
    environment = {**os.environ, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    environment.pop("ORT_DISABLE_TELEMETRY", None)
    if said is not None:
        environment["ORT_DISABLE_TELEMETRY"] = said
        code += "; import os; assert os.environ['ORT_DISABLE_TELEMETRY'] == '0'"
    subprocess.run([sys.executable, "-c", code, tiny_bundle], env=environment, check=True)
    assert said == "0" or not list(tmp_path.iterdir())


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


@pytest.mark.parametrize("name", ["publik_key", "public-key", "key", "pubic_key"])
def test_a_misspelt_key_is_an_error(tiny_bundle: Path, name: str) -> None:
    calls: list[Any] = [sdk.load, sdk.verify, sdk.open_index, Bundle.open]
    for call in calls:
        with pytest.raises(TypeError, match=name):
            call(tiny_bundle, **{name: PUBLIC})
    with pytest.raises(TypeError, match=name):
        cast(Any, sdk.load(tiny_bundle)).swap_adapter(None, **{name: PUBLIC})


def test_who_signed_is_what_was_checked(tmp_path: Path) -> None:
    path = write_tiny_bundle(tmp_path / "b", signing_key=PRIVATE)
    assert sdk.load(path).signed_by is None
    assert sdk.load(path).manifest.signature_key_id == key_id(PUBLIC)
    assert sdk.load(path, public_key=PUBLIC).signed_by == key_id(PUBLIC)


def test_the_module_takes_the_environments_key(
    tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signed = write_tiny_bundle(tmp_path / "b", signing_key=PRIVATE)
    monkeypatch.setenv("POCKETQUERY_BUNDLE", str(signed))
    assert sdk.encode("the sea").shape == (16,)
    monkeypatch.setenv("POCKETQUERY_PUBLIC_KEY", public_key_of(b"\x07" * 32).hex())
    with pytest.raises(SignatureError, match="not made over this manifest"):
        sdk.encode("the sea")  # though it is open already
    monkeypatch.setenv("POCKETQUERY_PUBLIC_KEY", PUBLIC.hex())
    assert sdk.encode_query("the sea").shape == (16,)
    monkeypatch.setenv("POCKETQUERY_BUNDLE", str(tiny_bundle))
    with pytest.raises(SignatureError, match="found no signature"):
        sdk.encode("the sea")
    monkeypatch.setenv("POCKETQUERY_PUBLIC_KEY", "")
    with pytest.raises(InvalidInputError, match="POCKETQUERY_PUBLIC_KEY is set and empty"):
        sdk.encode("the sea")


def test_the_environments_key_counts_for_the_bundle_loaded_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signed = write_tiny_bundle(tmp_path / "b", signing_key=PRIVATE)
    monkeypatch.setenv("POCKETQUERY_PUBLIC_KEY", PUBLIC.hex())
    sdk.load(signed)
    with pytest.raises(SignatureError, match="was loaded with none; pass it"):
        sdk.encode("the sea")
    sdk.load(signed, public_key=PUBLIC)
    assert sdk.encode("the sea").shape == (16,)


def test_with_a_key_an_unsigned_release_is_refused_on_every_way_in(tmp_path: Path) -> None:
    path = write_tiny_bundle(tmp_path / "b", adapter=trained_adapter(), signing_key=PRIVATE)
    bundle = Bundle.open(path, public_key=PUBLIC)
    plain = pack_adapter(trained_adapter(1), manifest=bundle.manifest, version="2")
    other = pack_adapter(
        trained_adapter(1), manifest=bundle.manifest, version="2", signing_key=b"\x07" * 32
    )
    signed = pack_adapter(
        trained_adapter(1), manifest=bundle.manifest, version="2", signing_key=PRIVATE
    )
    for release in (plain, other):
        with pytest.raises(SignatureError, match="adapter"):
            sdk.load(path, adapter=release, public_key=PUBLIC)
        with pytest.raises(SignatureError, match="adapter"):
            sdk.load(path, public_key=PUBLIC).swap_adapter(release)
        with pytest.raises(SignatureError, match="adapter"):
            sdk.load(path).swap_adapter(release, public_key=PUBLIC)
        # The key a bundle was opened with stays with the encoder that is made of it.
        with pytest.raises(SignatureError, match="adapter"):
            Encoder.of_bundle(bundle).swap_adapter(release)
    with pytest.raises(InvalidInputError, match="neither 64 hexadecimal"):
        sdk.load(path).swap_adapter(plain, public_key="")
    encoder = sdk.load(path, public_key=PUBLIC)
    encoder.swap_adapter(signed)
    assert encoder.version == "2"
    assert read_adapter(signed, manifest=bundle.manifest).signed_by is None
    found = read_adapter(signed, manifest=bundle.manifest, public_key=PUBLIC)
    assert found.signed_by == key_id(PUBLIC)


def test_an_encoder_made_with_a_key_of_an_unsigned_bundle_is_refused(tiny_bundle: Path) -> None:
    with pytest.raises(SignatureError, match="found no signature"):
        Encoder.of_bundle(Bundle.open(tiny_bundle), public_key=PUBLIC)
    with pytest.raises(SignatureError, match="found no signature"):
        sdk.load(tiny_bundle, public_key=PUBLIC)
