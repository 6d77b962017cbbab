"""The folders, the package list and the direction of imports, held to the table of the design."""

from __future__ import annotations

import ast
import importlib
import sys
import tomllib
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# What each package may import of ours.
ALLOWED = {
    "sdk": {"sdk"},
    "client": {"client", "sdk"},
    "server": {"server", "client", "sdk"},
    "distill": {"distill", "server", "client", "sdk"},
    "export": {"export", "distill", "server", "client", "sdk"},
}
# Those of packages/, whose modules stand beside the namespace, and what each may import of ours.
BESIDE = {
    "pocketquery-attestation": {"pocketquery_attestation", "pocketquery_gateway", "sdk"},
    "pocketquery-corpus": {"pocketquery_corpus", "server", "sdk"},
    "pocketquery-demo": {"pocketquery_demo", "export", "distill", "server", "sdk"},
    "pocketquery-gateway": {"pocketquery_gateway", "server", "client", "sdk"},
    "pocketquery-join": {"pocketquery_join", "client", "sdk"},
    "pocketquery-mobile": {"pocketquery_mobile", "export", "server", "sdk"},
    "pocketquery-privacy": {"pocketquery_privacy", "server", "client", "sdk"},
    "pocketquery-simulation": {"pocketquery_simulation", "server", "client", "sdk"},
    "pocketquery-stores": {"pocketquery_stores", "sdk"},
}
FOLDERS = (*ALLOWED, *(f"packages/{name}/{name.replace('-', '_')}" for name in BESIDE))
# What the device has. cryptography comes with the extra "sign", shtab with "completion", mcp with
# "mcp", py3langid with "languages", chardet, pypdfium2 and watchfiles with "files", all of them
# only inside functions.
DEVICE = {"numpy", "onnxruntime", "pathspec", "sentencepiece", "simsimd", "snowballstemmer"}
DEVICE_LAZILY = DEVICE | {
    "chardet",
    "cryptography",
    "mcp",
    "py3langid",
    "pypdfium2",
    "shtab",
    "watchfiles",
}

# The sub-folders of server/: each imports itself and those before it.
SERVER_ORDER = (
    "pages",
    "training",
    "modeling",
    "corpus",
    "objectives",
    "evaluation",
    "pretraining",
)
# These stand apart: of server/, they import what is named alone. The gate of releases reads queries
# and judgements, and scores rankings as the evaluation does.
SERVER_APART = {
    "private": {"private", "pages"},
    "federation": {"federation", "private", "pages", "corpus", "evaluation"},
}

BUILT = {"node_modules", "dist", ".test"}  # by npm
MOST_FILES = 20  # directly in a folder
MOST_LINES = 400  # of a file of the SDK
# Folders that have more, and how many. The numbers only fall.
OVERFULL: dict[str, int] = {}


def modules(package: str) -> list[Path]:
    found = sorted((ROOT / package).rglob("*.py"))
    return [path for path in found if ROOT / "sdk" / "js" not in path.parents]  # npm's package


def module_name(path: Path) -> str:
    """What ``path``, a module or a package's ``__init__.py``, is imported as."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    name = ".".join(parts[2:] if parts[0] == "packages" else ("pocketquery", *parts))
    return name.removesuffix(".__init__")


def imports(tree: ast.AST) -> Iterator[str]:
    """The full names of what is imported anywhere under ``tree``; relative ones begin with '.'."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            yield from (f"{base}.{alias.name}" for alias in node.names)


def at_import_time(tree: ast.Module) -> Iterator[str]:
    """The same for what runs when the module is imported: no functions, no TYPE_CHECKING."""
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield from imports(node)


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"), str(path))


def configuration() -> dict[str, object]:
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    assert isinstance(tool, dict)
    return tool


def test_the_package_list_is_what_lies_on_the_disk() -> None:
    on_disk = {
        "pocketquery." + ".".join(init.parent.relative_to(ROOT).parts)
        for package in ALLOWED
        for init in (ROOT / package).rglob("__init__.py")
    }
    listed = configuration()["packages"]
    assert isinstance(listed, list)
    assert len(listed) == len(set(listed))
    assert set(listed) == on_disk


def test_no_folder_with_code_lacks_an_init() -> None:
    for package in FOLDERS:
        for module in modules(package):
            assert (module.parent / "__init__.py").is_file(), module


def test_each_room_is_mapped_typed_and_linked_for_the_type_checker() -> None:
    mapping = configuration()["package-dir"]
    assert mapping == {f"pocketquery.{package}": package for package in ALLOWED}
    for package in ALLOWED:
        assert (ROOT / package / "py.typed").is_file()
        assert (ROOT / "typings" / "pocketquery" / package).resolve() == ROOT / package


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_imports_point_one_way(package: str) -> None:
    for module in modules(package):
        for name in imports(parsed(module)):
            assert not name.startswith("."), f"{module}: relative import {name}"
            top, _, rest = name.partition(".")
            assert top not in ALLOWED, f"{module}: {name}, expected pocketquery.{name}"
            if top == "pocketquery":
                assert rest.split(".")[0] in ALLOWED[package], f"{module} imports {name}"


@pytest.mark.parametrize("project", sorted(BESIDE))
def test_packages_import_what_they_require(project: str) -> None:
    """And nothing imports them, but what requires them."""
    for module in modules(f"packages/{project}/{project.replace('-', '_')}"):
        for name in imports(parsed(module)):
            assert not name.startswith("."), f"{module}: relative import {name}"
            top, _, rest = name.partition(".")
            if top.startswith("pocketquery"):
                own = rest.split(".")[0] if top == "pocketquery" else top
                assert own in BESIDE[project], f"{module} imports {name}"


def test_the_folders_of_the_server_import_one_way() -> None:
    for module in modules("server"):
        folder = module.relative_to(ROOT / "server").parts[0]
        if folder == "__init__.py":
            continue
        may = SERVER_APART.get(folder)
        if may is None:
            assert folder in SERVER_ORDER, f"server/{folder} has no place in the order: give it one"
            may = set(SERVER_ORDER[: SERVER_ORDER.index(folder) + 1])
        for name in imports(parsed(module)):
            if name.startswith("pocketquery.server."):
                assert name.split(".")[2] in may, f"{module} imports {name}, expected of {may}"


def imports_of_siblings() -> dict[Path, dict[str, set[str]]]:
    """For each folder, what its sub-folders import of each other; its own files do not count."""
    found: dict[Path, dict[str, set[str]]] = {}
    for module in (module for package in FOLDERS for module in modules(package)):
        own = [*module_name(module.parent / "_").split(".")[:-1], module.stem]
        for name in imports(parsed(module)):
            parts = name.split(".")
            pairs = enumerate(zip(own, parts, strict=False))
            level = next((at for at, (one, other) in pairs if one != other), None)
            if not level:
                continue
            folder, here, there = module.parents[len(own) - level - 1], own[level], parts[level]
            if (folder / here).is_dir() and (folder / there).is_dir():
                found.setdefault(folder, {}).setdefault(here, set()).add(there)
    return found


def test_sub_folders_import_each_other_without_a_cycle() -> None:
    for folder, imported in imports_of_siblings().items():
        try:
            TopologicalSorter(imported).prepare()
        except CycleError as error:
            cycle = " imports ".join(reversed(error.args[1]))
            pytest.fail(f"{folder}: {cycle}; move what both need below them")


def test_no_file_of_the_sdk_is_long() -> None:
    for module in modules("sdk"):
        lines = module.read_text("utf-8").count("\n")
        assert lines <= MOST_LINES, f"{module} has {lines} lines, expected at most {MOST_LINES}"


def test_no_folder_is_overfull() -> None:
    counts: dict[str, int] = {}
    for package in FOLDERS:
        for file in (ROOT / package).rglob("*"):
            if file.suffix in (".py", ".ts", ".js") and not BUILT.intersection(file.parts):
                folder = file.parent.relative_to(ROOT).as_posix()
                counts[folder] = counts.get(folder, 0) + 1
    for folder, count in counts.items():
        most = OVERFULL.get(folder, MOST_FILES)
        assert count <= most, f"{folder} has {count} source files, expected at most {most}"
    done = [folder for folder in OVERFULL if counts.get(folder, 0) <= MOST_FILES]
    assert not done, f"{done}: take them out of OVERFULL"


def test_the_device_imports_what_the_device_has() -> None:
    for module in modules("sdk"):
        tree = parsed(module)
        ours = sys.stdlib_module_names | {"pocketquery"}
        for names, allowed in ((at_import_time(tree), DEVICE), (imports(tree), DEVICE_LAZILY)):
            for name in names:
                assert name.partition(".")[0] in ours | allowed, f"{module} imports {name}"


def test_imports_are_found_wherever_they_hide() -> None:
    tree = ast.parse("import a.b\ndef f():\n    from c import d\nif TYPE_CHECKING:\n    import e")
    assert set(imports(tree)) == {"a.b", "c.d", "e"}
    assert set(at_import_time(tree)) == {"a.b"}


@pytest.mark.parametrize("init", sorted(p for package in FOLDERS for p in modules(package)))
def test_every_module_names_what_it_offers(init: Path) -> None:
    if init.name == "__main__.py" or (init.name == "__init__.py" and not parsed(init).body[1:]):
        return  # nothing is offered
    assert any(
        isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        for node in parsed(init).body
    ), f"{init} has no __all__"


@pytest.mark.parametrize(
    "package",
    sorted(
        module_name(init) for folder in FOLDERS for init in (ROOT / folder).rglob("__init__.py")
    ),
)
def test_every_name_a_package_lists_can_be_imported(package: str) -> None:
    module = importlib.import_module(package)
    listed = getattr(module, "__all__", [])
    assert len(listed) == len(set(listed))
    for name in listed:
        assert getattr(module, name) is not None
