"""The example of React Native: built by Metro, compiled by ``hermesc``, and run in Hermes.

The tools are installed from npm into ``build/react-native``, as the lock file says. In the run the
phone's files and views are in memory (``sdk/js/test/react_native/app``); the app, React,
react-native-fs and pocketquery are real.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from pocketquery import sdk
from tests.packaging.wheels import ROOT

PACKAGE = ROOT / "sdk" / "js"
EXAMPLE = ROOT / "examples" / "react-native"
PAGE = ROOT / "docs" / "how-to" / "react-native.md"
TESTS = PACKAGE / "test" / "react_native"
# One a process: a module's tests may be shared between two.
PLACE = ROOT / "build" / f"react-native-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
# The last React Native whose bytecode (89) is that of the newest Hermes on npm, 0.12.
OLDER = "react-native@0.70.15"
FOLDERS = {"linux": "linux64-bin", "darwin": "osx-bin", "win32": "win64-bin"}
TEXTS = {
    "garden": "In March I planted beans and radishes beside the old wall.",
    "printer": "Error 0x61: clean the print head and restart the printer.",
    "refund": "To return an item and have your money back, write to support within thirty days.",
    "sugar": "Green leaves turn light, water and carbon dioxide into glucose.",
}

is_built = (PACKAGE / "dist" / "web.js").exists() and shutil.which("npm") is not None
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(not is_built, reason="sdk/js is not built: npm ci && npm run build"),
]


@pytest.fixture(scope="module")
def app() -> Path:
    """The example with its tools, the package as it is published, and what the app ships."""
    PLACE.mkdir(parents=True, exist_ok=True)
    for path in PLACE.iterdir():
        if path.name not in ("node_modules", "installed.json", "older"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.copytree(EXAMPLE, PLACE, dirs_exist_ok=True)
    shutil.copytree(TESTS / "app", PLACE / "phone")
    shutil.copytree(TESTS / "tools", PLACE, dirs_exist_ok=True)
    lock, installed = PLACE / "package-lock.json", PLACE / "installed.json"
    if not installed.exists() or installed.read_bytes() != lock.read_bytes():
        run("npm", "ci", "--ignore-scripts")
        shutil.copy(lock, installed)
    run("npm", "pack", "--ignore-scripts", "--pack-destination", str(PLACE), folder=PACKAGE)
    (packed,) = PLACE.glob("pocketquery-*.tgz")
    shutil.rmtree(PLACE / "node_modules" / "pocketquery", ignore_errors=True)
    shutil.unpack_archive(packed, PLACE / "unpacked", "gztar")
    (PLACE / "unpacked" / "package").rename(PLACE / "node_modules" / "pocketquery")
    encoder = sdk.load()
    with sdk.create_index(PLACE / "index", encoder=encoder) as built:
        documents = [sdk.Document(id, text) for id, text in TEXTS.items()]
        built.add(documents, encoder.encode_document(list(TEXTS.values())))
    default = PLACE / "node_modules" / "pocketquery" / "default"
    for name, folder in (("index.zip", PLACE / "index"), ("encoder.zip", default)):
        with zipfile.ZipFile(PLACE / name, "w") as archive:
            for path in folder.iterdir():
                archive.write(path, path.name)
    return PLACE


def test_the_example_names_the_versions_that_are_tested() -> None:
    example, tools = (
        json.loads((folder / "package.json").read_text()) for folder in (EXAMPLE, TESTS / "tools")
    )
    asked = example["dependencies"] | example["devDependencies"]
    version = json.loads((PACKAGE / "package.json").read_text())["version"]
    assert asked.pop("pocketquery") == version
    del asked["@react-native-community/cli"]  # which calls Metro in an app
    assert {name: tools["dependencies"].get(name) for name in asked} == asked


def test_metro_and_hermesc_take_the_app_as_it_is(app: Path) -> None:
    bundle = built(app, "index.js")
    compiler = app / "node_modules" / "hermes-compiler" / "hermesc" / folder() / "hermesc"
    assert compiled(compiler, bundle).stat().st_size > 1_000_000
    assert "deriveKeys" not in bundle.read_text()  # of private rounds, which nobody asked for


def test_the_app_runs_in_hermes(app: Path) -> None:
    """It opens, searches, keeps a note, is opened again and deletes it, as Python would."""
    config = app / "babel.config.js"
    preset = '["module:@react-native/babel-preset", { unstable_transformProfile: "default" }]'
    config.write_text(config.read_text().replace('"module:@react-native/babel-preset"', preset))
    bundle = built(app, "phone/run.js", "phone/metro.config.js")  # without classes
    assets = {name: packed(app / name) for name in ("encoder.zip", "index.zip")}
    phone = f"globalThis.FILES = {{}}; globalThis.ASSETS = {json.dumps(assets)};"
    timer = "globalThis.setTimeout ??= (work) => void Promise.resolve().then(work);"
    bundle.write_text("\n".join([phone, timer, bundle.read_text()]))
    hermes = PACKAGE / "node_modules" / "hermes-engine-cli" / folder() / "hermes"
    done = run(str(hermes), "-b", str(compiled(older_compiler(), bundle)))
    note = "The spare key lies under the blue flower pot."
    with sdk.open_index(app / "index", encoder=sdk.load()) as index:
        found = index.search("how do I get a refund", k=1)[0].text
    assert json.loads(done.stdout) == {
        "opened": "4 documents",
        "found": found,
        "added": "5 documents",
        "note": note,
        "again": "5 documents",
        "kept": note,
        "deleted": "4 documents",
    }


@pytest.mark.parametrize("module", ["react-native-fs", "expo-file-system", "expo-sqlite"])
def test_the_files_of_the_page_have_the_types_of_their_modules(app: Path, module: str) -> None:
    place = app / "typed"
    place.mkdir(exist_ok=True)
    name = f"{module.replace('-', '_')}.ts"
    (place / name).write_text(block(module))
    options = "--noEmit --strict --skipLibCheck --module esnext --moduleResolution bundler"
    options += " --target es2022 --lib es2022,dom --exactOptionalPropertyTypes --types"
    compiler = PACKAGE / "node_modules" / "typescript" / "bin" / "tsc"
    run("node", str(compiler), *options.split(), "", name, folder=place)


def test_the_example_has_the_files_of_the_page() -> None:
    written = (EXAMPLE / "files.js").read_text()
    for line in block("react-native-fs").split("FileSystem = {\n")[1].splitlines():
        assert line in written.splitlines()


def test_the_statements_of_the_page_do_to_rows_what_is_asked_of_files() -> None:
    statements = re.findall(r'"((?:SELECT|INSERT|UPDATE) .+?)"', block("expo-sqlite"))
    size, read, write, append, move = statements
    with sqlite3.connect(":memory:") as database:
        (table,) = re.findall(r"`(CREATE TABLE files [^`]+)`", PAGE.read_text("utf-8"))
        database.execute(table)
        whole, more = bytes(range(256)) * 3, b"\x00\xff\xc3("
        database.execute(write, ("a", whole))
        database.execute(append, (more, "a"))
        assert database.execute(read, (1, 800, "a")).fetchone() == (whole + more,)
        assert database.execute(read, (256, 2, "a")).fetchone() == (b"\xff\x00",)
        database.execute(write, ("b", more))
        database.execute(move, ("a", "b"))
        assert database.execute(size, ("a",)).fetchone() == (len(more),)
        assert database.execute(size, ("b",)).fetchone() is None


def block(module: str) -> str:
    """The page's block that imports ``module``."""
    found = re.findall(r"```ts\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    (one,) = [code for code in found if f'from "{module}"' in code]
    return str(one)


def built(app: Path, entry: str, config: str = "metro.config.js") -> Path:
    """The bundle that Metro makes of a file."""
    bundle = app / f"{Path(entry).stem}.bundle.js"
    options = "--platform android --dev false --minify false --reset-cache --config".split()
    metro = app / "node_modules" / ".bin" / "metro"
    run(str(metro), "build", entry, "--out", str(bundle), *options, config)
    return bundle


def compiled(compiler: Path, bundle: Path) -> Path:
    bytecode = bundle.with_suffix(".hbc")
    run(str(compiler), "-O", "-w", "-emit-binary", "-out", str(bytecode), str(bundle))
    return bytecode


def older_compiler() -> Path:
    compiler = PLACE / "older" / "package" / "sdks" / "hermesc" / folder() / "hermesc"
    if not compiler.exists():
        (PLACE / "older").mkdir(exist_ok=True)
        run("npm", "pack", "--ignore-scripts", OLDER, folder=PLACE / "older")
        (archive,) = (PLACE / "older").glob("*.tgz")
        shutil.unpack_archive(archive, PLACE / "older", "gztar")
        archive.unlink()
        compiler.chmod(0o755)
    return compiler


def packed(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def folder() -> str:
    return FOLDERS[sys.platform]


def run(*command: str, folder: Path = PLACE) -> subprocess.CompletedProcess[str]:
    """Run a program; the test fails where it does."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, (
        f"{' '.join(command)}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    )
    return done
