"""The built-in bundle, and those that data packages bring."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from pocketquery import sdk
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.bundle.installed import DEFAULT_BUNDLE, installed_bundle
from pocketquery.sdk.bundle.writing import pack
from pocketquery.sdk.cli import main
from pocketquery.sdk.errors import ArtifactNotFoundError, PocketQueryWarning, SignatureError
from tests.sdk.tiny_bundle import write_tiny_bundle

_MOST_BYTES = 6_000_000


@pytest.fixture(autouse=True)
def no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POCKETQUERY_BUNDLE", raising=False)
    monkeypatch.delenv("POCKETQUERY_PUBLIC_KEY", raising=False)


def test_the_default_is_sound_small_and_says_where_it_comes_from() -> None:
    report = sdk.verify("default")
    assert report.golden is not None
    assert sum(file.stat().st_size for file in Path(DEFAULT_BUNDLE).iterdir()) <= _MOST_BYTES
    assert Bundle.open("default").manifest.license == "Apache-2.0"


def test_the_default_finds_what_is_meant() -> None:
    texts = ["the train to the coast leaves at noon", "sugar is made by plants from light"]
    query, *documents = sdk.load().encode(["how do leaves produce food", *texts])
    assert documents[1] @ query > documents[0] @ query


def test_without_any_setting_the_default_encodes() -> None:
    code = (
        "import sys; from pocketquery import sdk; print(sdk.encode('x').shape); "
        "assert not {'torch', 'onnx', 'transformers', 'tokenizers'} & set(sys.modules)"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=_environment()
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout == "(384,)\n"


def test_the_order_of_what_encodes(tiny_bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    default = sdk.load("default").encode("the sea")
    assert np.array_equal(sdk.load().encode("the sea"), default)
    monkeypatch.setenv("POCKETQUERY_BUNDLE", str(tiny_bundle))
    assert sdk.load().dimension == 16
    assert sdk.encode("the sea").shape == (16,)
    monkeypatch.delenv("POCKETQUERY_BUNDLE")
    sdk.load("default")
    assert np.array_equal(sdk.encode("the sea"), default)


def test_a_key_refuses_the_unsigned_default() -> None:
    with pytest.raises(SignatureError):
        sdk.load(public_key="00" * 32)


def test_a_data_package_is_found_without_running_it(tmp_path: Path) -> None:
    _data_package(tmp_path, "minilm", "pocketquery_minilm")
    code = (
        "from pocketquery import sdk; print(sdk.load('minilm').dimension); "
        "print(sorted(sdk.bundles())); sdk.load('maxilm')"
    )
    found = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=_environment(str(tmp_path)),
    )
    assert found.stdout == "16\n['default', 'minilm']\n"
    assert "maxilm: found nothing there" in found.stderr
    assert "installed bundle's name: default, minilm" in found.stderr


def test_an_index_is_searched_with_the_package_it_was_made_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _data_package(tmp_path, "tiny", "pocketquery_tiny")
    encoder = sdk.load(tmp_path / "pocketquery_tiny" / "bundle")
    with sdk.create_index(tmp_path / "index", encoder=encoder) as builder:
        builder.add(["the cold sea"])
    asked = ["search", "--index", str(tmp_path / "index"), "the cold sea"]
    assert main(asked) == 2
    assert "--bundle" in capsys.readouterr().err
    monkeypatch.syspath_prepend(tmp_path)
    assert main(asked) == 0
    assert "the cold sea" in capsys.readouterr().out
    assert main([*asked, "--bundle", "default"]) == 2  # what is named is not changed
    assert main(["doctor", "--index", str(tmp_path / "index")]) == 0
    monkeypatch.setenv("POCKETQUERY_INDEX", str(tmp_path / "index"))
    capsys.readouterr()
    assert main(["doctor"]) == 0
    assert "\nindex\n" in capsys.readouterr().out


def test_a_package_that_is_gone_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _data_package(tmp_path, "lost", "pocketquery_lost")
    (tmp_path / "pocketquery_lost" / "__init__.py").unlink()
    for file in (tmp_path / "pocketquery_lost" / "bundle").iterdir():
        file.unlink()
    (tmp_path / "pocketquery_lost" / "bundle").rmdir()
    (tmp_path / "pocketquery_lost").rmdir()
    monkeypatch.syspath_prepend(tmp_path)
    assert set(sdk.bundles()) == {"default"}
    with pytest.raises(ArtifactNotFoundError, match="lost: found nothing there"):
        sdk.load("lost")


def test_an_inner_package_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _data_package(tmp_path, "inner", "outer.middle.inner")
    for package in ("outer", "outer/middle"):
        (tmp_path / package / "__init__.py").write_text("raise RuntimeError('run')\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert sdk.bundles()["inner"] == tmp_path / "outer" / "middle" / "inner" / "bundle"
    assert sdk.load("inner").dimension == 16
    assert "outer" not in sys.modules


def test_an_inner_package_whose_outer_one_is_missing_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _data_package(tmp_path, "inner", "outer.inner")
    shutil.rmtree(tmp_path / "outer")
    monkeypatch.syspath_prepend(tmp_path)
    assert set(sdk.bundles()) == {"default"}


def test_an_editable_package_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    metadata, source = tmp_path / "site", tmp_path / "source"
    metadata.mkdir()
    _data_package(source, "edited", "outer.inner")
    (source / "outer.inner-1.dist-info").rename(metadata / "outer.inner-1.dist-info")
    for place in (source, metadata):
        monkeypatch.syspath_prepend(place)
    assert sdk.bundles()["edited"] == source / "outer" / "inner" / "bundle"


@pytest.mark.parametrize(
    "value", ["outer", "outer:", ":bundle", ".outer:bundle", "outer..inner:bundle", "outer:../b",
              "outer:/etc", "a b:c", "outer:bundle [extra]", "os.path:bundle", "sys:bundle"]
)  # fmt: skip
def test_an_entry_that_names_no_folder_is_passed_over(
    value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _data_package(tmp_path, "strange", "outer")
    points = tmp_path / "outer-1.dist-info" / "entry_points.txt"
    points.write_text(f"[pocketquery.bundles]\nstrange = {value}\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    assert set(sdk.bundles()) == {"default"}


def test_a_module_without_a_spec_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _data_package(tmp_path, "lost", "outer")
    shutil.rmtree(tmp_path / "outer")
    monkeypatch.setitem(sys.modules, "outer", ModuleType("outer"))
    monkeypatch.syspath_prepend(tmp_path)
    assert set(sdk.bundles()) == {"default"}


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("name", ["default", "minilm"])
def test_a_name_never_means_what_is_in_the_working_folder(
    name: str, zipped: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, folder = tmp_path / "site", tmp_path / "downloads"
    _data_package(site, "minilm", "pocketquery_minilm")
    monkeypatch.syspath_prepend(site)
    folder.mkdir()
    monkeypatch.chdir(folder)
    expected = sdk.load(name).encode("the sea")
    _plant(folder / name, zipped)
    warned = pytest.warns(
        PocketQueryWarning, match=rf"^{name} is taken .*; write \./{name} for that"
    )
    with warned:
        assert np.array_equal(sdk.load(name).encode("the sea"), expected)
    for path in (f"./{name}", Path(name), str(folder / name)):
        assert sdk.load(path).name == "planted"
    monkeypatch.setenv("POCKETQUERY_BUNDLE", name)
    with warned:
        assert np.array_equal(sdk.load().encode("the sea"), expected)
    with warned:
        assert Bundle.open(name).manifest.name != "planted"
    with warned:
        assert sdk.verify(name).golden is not None


def test_the_default_is_taken_unnamed_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    _plant(tmp_path / "default", False)
    with pytest.warns(PocketQueryWarning):
        assert sdk.load().dimension == 384


def test_another_name_is_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    _plant(tmp_path / "mine", False)
    assert sdk.load("mine").name == "planted"
    (tmp_path / "default").mkdir()
    assert sdk.load("default").dimension == 384


def _plant(place: Path, zipped: bool) -> None:
    write_tiny_bundle(place, name="planted")
    if zipped:
        pack(place, place.with_suffix(".zip"))
        shutil.rmtree(place)
        place.with_suffix(".zip").rename(place)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../default", "défaut", "x" * 101])
def test_what_can_be_no_name_is_none(name: str) -> None:
    assert installed_bundle(name) is None
    assert installed_bundle(Path("default")) is None


def _environment(*places: str) -> dict[str, str]:
    path = os.pathsep.join([*places, os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    return {"PATH": "", **({"PYTHONPATH": path} if path else {})}


def _data_package(folder: Path, name: str, package: str) -> None:
    """As pip leaves it; importing it would fail."""
    place = folder.joinpath(*package.split("."))
    write_tiny_bundle(place / "bundle")
    (place / "__init__.py").write_text("raise RuntimeError('run')\n", encoding="utf-8")
    information = folder / f"{package}-1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {package}\nVersion: 1\n", encoding="utf-8"
    )
    (information / "entry_points.txt").write_text(
        f"[pocketquery.bundles]\n{name} = {package}:bundle\n", encoding="utf-8"
    )
