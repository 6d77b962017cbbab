from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pocketquery.sdk.doctor.command import check_environment, doctor
from pocketquery.sdk.doctor.findings import Finding, Report, Severity, guarded
from pocketquery.sdk.doctor.machine import check_clock, check_folder, check_machine
from tests.sdk.small_index import make_index
from tests.sdk.tiny_bundle import PRIVATE, PUBLIC, write_tiny_bundle, write_tiny_index
from tests.shell import Shell

YEAR = 365 * 86_400.0


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    for name in [name for name in os.environ if name.startswith("POCKETQUERY_")]:
        monkeypatch.delenv(name)
    for name in ("XDG_DATA_HOME", "HOME", "LOCALAPPDATA"):  # the user's own index is not looked at
        monkeypatch.setenv(name, str(tmp_path_factory.mktemp("home")))


class Run:
    """``pocketquery doctor --json``: its report, which the exit code agrees with."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell

    def __call__(self, *arguments: object, code: int = 1) -> dict[str, Any]:
        printed = self.shell("doctor", "--json", *arguments, code=code)
        report: dict[str, Any] = json.loads(printed.out)
        assert (code == 0) is report["healthy"] is (report["broken"] == 0)
        return report


@pytest.fixture
def run(shell: Shell) -> Run:
    return Run(shell)


def broken(report: dict[str, Any]) -> dict[tuple[str, str], str]:
    """Area and name of what is broken, with what was found; each says what to do."""
    bad = [finding for finding in report["findings"] if finding["state"] == "broken"]
    assert all(finding["remedy"] for finding in bad)
    return {(finding["area"], finding["name"]): finding["found"] for finding in bad}


def details(report: dict[str, Any], area: str, name: str) -> dict[str, Any]:
    (found,) = (f for f in report["findings"] if (f["area"], f["name"]) == (area, name))
    return dict(found["details"])


def test_a_sound_machine_bundle_and_index(
    run: Run, tiny_bundle: Path, tiny_index: Path, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    given = ("--bundle", tiny_bundle, "--index", tiny_index, "--state", state)
    report = run(*given, "--query", "sea", code=0)
    assert broken(report) == {}
    assert details(report, "packages", "numpy")["version"]
    assert "CPUExecutionProvider" in details(report, "machine", "onnxruntime")["providers"]
    assert details(report, "bundles", "default")["golden"]["texts"] > 0
    assert details(report, "bundles", f"{tiny_bundle} (in use)")["golden"]["texts"] == 4
    query = details(report, "index", "query")
    assert query["hits"] == 3
    assert query["encode"] > 0
    assert query["encode_and_search"] > 0
    assert not state.exists()  # nothing is made, nothing is left
    assert list(tmp_path.iterdir()) == []


def test_for_people(shell: Shell, tmp_path: Path) -> None:
    assert "\nbundles\n" in shell("doctor", says="default (in use)").out
    names = ("bench", "docs", "mcp")
    absent = [Finding("extras", name, Severity.ABSENT, "lacks x") for name in names]
    lines = list(Report((Finding("extras", "a", Severity.OK, ""), *absent)).lines())
    assert lines[2].split(maxsplit=2) == ["absent", "others", "bench, docs, mcp"]
    assert len(lines) == 6
    out = shell("doctor", "--bundle", tmp_path / "absent", code=1, says="BROKEN").out
    assert "do: fetch or export it again" in out
    assert out.rstrip().splitlines()[-1].startswith("1 broken, ")


def test_a_tampered_bundle(run: Run, tmp_path: Path) -> None:
    bundle = write_tiny_bundle(tmp_path / "bundle")
    data = bytearray((bundle / "encoder.onnx").read_bytes())
    data[-1] ^= 1
    (bundle / "encoder.onnx").write_bytes(data)
    report = run("--bundle", bundle)
    ((area, name), found) = broken(report).popitem()
    assert (area, name) == ("bundles", f"{bundle} (in use)")
    assert "encoder.onnx has SHA-256" in found


def test_an_index_beside_a_broken_bundle(run: Run, tiny_index: Path, tmp_path: Path) -> None:
    report = run("--bundle", tmp_path / "absent", "--index", tiny_index)
    assert details(report, "index", "files")["documents"] == 3
    assert "absent" in broken(report)["index", "index"]


def test_a_blank_query_is_not_the_index_s_fault(shell: Shell, tiny_index: Path) -> None:
    shell("doctor", "--index", tiny_index, "--query", " ", code=2, says="the query is blank")


def test_a_signature(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cryptography")
    bundle = write_tiny_bundle(tmp_path / "bundle", signing_key=PRIVATE)
    index = write_tiny_index(tmp_path / "index", signing_key=PRIVATE)
    monkeypatch.setenv("POCKETQUERY_PUBLIC_KEY", PUBLIC.hex())
    report = run("--bundle", bundle, "--index", index, "--index-public-key", PUBLIC.hex(), code=0)
    assert broken(report) == {}
    assert details(report, "bundles", f"{bundle} (in use)")["signed_by"]
    assert details(report, "index", "files")["signed_by"]
    report = run()  # the default is not signed by this key, and would be used
    assert list(broken(report)) == [("bundles", "default (in use)")]
    monkeypatch.setenv("POCKETQUERY_PUBLIC_KEY", "")
    report = run("--bundle", bundle)
    assert "is set and empty" in broken(report)["bundles", "public key"]


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("absent", "there is no index at "),
        ("bundle", "is no index, it has no index.json"),
        ("file", "is a file, and an index is a folder"),
    ],
)
def test_what_is_no_index(run: Run, tmp_path: Path, place: str, message: str) -> None:
    write_tiny_bundle(tmp_path / "bundle")
    (tmp_path / "file").touch()
    report = run("--index", tmp_path / place)
    assert message in broken(report)["index", "index"]
    assert [f["name"] for f in report["findings"] if f["area"] == "index"] == ["index"]


def test_an_index_of_another_space(run: Run, tiny_bundle: Path, tmp_path: Path) -> None:
    make_index(tmp_path / "index")
    report = run("--bundle", tiny_bundle, "--index", tmp_path / "index")
    assert "space-of-words" in broken(report)["index", "index"]


def test_a_damaged_index(run: Run, tiny_bundle: Path, tiny_index: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny_index, tmp_path / "index")
    (vectors, *_) = (tmp_path / "index").glob("vectors*")
    vectors.write_bytes(vectors.read_bytes()[:-1])
    report = run("--bundle", tiny_bundle, "--index", tmp_path / "index")
    assert vectors.name in broken(report)["index", "index"]


def test_an_extra_that_is_wanted_and_none(run: Run) -> None:
    report = run("--extra", "nonsense")
    assert "no such extra" in broken(report)["extras", "nonsense"]


@pytest.mark.parametrize("package", ["numpy", "onnxruntime", "sentencepiece", "simsimd"])
def test_a_package_that_cannot_be_imported_is_a_finding(package: str, tmp_path: Path) -> None:
    """The doctor itself needs nothing but Python."""
    code = (
        "import sys\n"
        "class Blocker:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.partition('.')[0] == {package!r}:\n"
        "            raise ImportError(f'DLL load failed: {name}')\n"
        "sys.meta_path.insert(0, Blocker())\n"
        "from pocketquery.sdk.cli import main\n"
        "sys.exit(main(['doctor', '--json']))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 1, result.stderr
    report = json.loads(result.stdout)
    assert any("DLL load failed" in found for found in broken(report).values())
    assert details(report, "machine", "python")


def test_variables_that_nothing_reads_are_named() -> None:
    found = {f.name: f for f in check_environment({"POCKETQUERY_BUNDEL": "x", "HOME": "/"})}
    assert found["POCKETQUERY_BUNDEL"].state is Severity.WARNING
    assert "POCKETQUERY_BUNDLE" in found["POCKETQUERY_BUNDEL"].remedy
    assert found["POCKETQUERY_BUNDLE"].state is Severity.ABSENT
    assert found["POCKETQUERY_INDEX"].state is Severity.ABSENT
    assert "HOME" not in found


@pytest.mark.parametrize(
    ("now", "written", "state"),
    [
        (50 * YEAR, 50 * YEAR, Severity.OK),
        (50 * YEAR - 3_600, 50 * YEAR - 3_600, Severity.OK),  # a zone that was set wrongly
        (0.0, 0.0, Severity.BROKEN),  # 1970: no battery behind the clock
        (90 * YEAR, 90 * YEAR, Severity.BROKEN),
        (50 * YEAR, 50 * YEAR + 1_000, Severity.WARNING),
    ],
)
def test_the_clock(now: float, written: float, state: Severity) -> None:
    finding = check_clock(now, 50 * YEAR, written)
    assert finding.state is state
    assert bool(finding.remedy) is (state is not Severity.OK)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    found = guarded("state", "s", "do", lambda: check_folder(tmp_path / "file", "s"))
    assert [finding.state for finding in found] == [Severity.BROKEN]


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's")
def test_a_private_folder_that_others_may_read(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    finding = check_folder(tmp_path, "device state", private=True)
    assert finding.state is Severity.WARNING
    assert finding.remedy == f"chmod 700 {tmp_path}"
    tmp_path.chmod(0o700)
    assert check_folder(tmp_path, "device state", private=True).state is Severity.OK


def test_what_was_found_before_an_error_is_kept() -> None:
    def check() -> Any:
        yield Finding("a", "first", Severity.OK, "well")
        raise RuntimeError("then\nnot")

    first, second = guarded("a", "b", "remedy", check)
    assert first.name == "first"
    assert (second.state, second.found) == (Severity.BROKEN, "RuntimeError: then not")
    report = Report((first, second))
    assert not report.healthy
    assert "      remedy" not in "\n".join(report.lines())
    assert Report(tuple(check_machine())).healthy
    assert doctor.__doc__
