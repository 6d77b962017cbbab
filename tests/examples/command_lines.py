"""Blocks that are read and not run: would their commands parse, and are names still there?"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import re
import shlex
import tomllib
from collections.abc import Iterator
from functools import cache

from pocketquery.sdk.cli import whole_parser
from tests.examples.pages import ROOT

# Programs of others: what they take is theirs to say.
_OTHERS = {"openssl", "flower-supernode", "torchrun", "npm", "npx", "cd", "node", "echo"}
_OTHERS |= {"cat", "cut", "grep", "head", "mkdir", "rm", "systemctl", "tail"}
_ENDS = re.compile(r"[;&|\n]+")
_HERE_DOCUMENT = re.compile(
    r"^(?P<before>.*)<<\s*(?P<quote>['\"]?)(?P<end>\w+)(?P=quote)(?P<after>.*)\n"
    r"(?P<body>(?:.*\n)*?)(?P=end)$",
    re.MULTILINE,
)


def commands(code: str, variables: dict[str, str]) -> Iterator[list[str]]:
    """The words of each command of a shell block; assignments are kept in ``variables``."""
    code = re.sub(r"\d>&\d", "", _HERE_DOCUMENT.sub(r"\g<before>\g<after>", code))
    code = re.sub(r"(^|[ \t]+)#[^\n\"']*$", "", code.replace("\\\n", " "), flags=re.MULTILINE)
    variables |= dict(re.findall(r"^([A-Z]+)=\"?(.*?)\"?$", code, re.MULTILINE))
    code = re.sub(r"^[A-Z]+=.*$", "", code, flags=re.MULTILINE)
    for name, value in variables.items():
        code = re.sub(rf"\${name}\b", value.replace("\\", r"\\"), code)
    lexer = shlex.shlex(code, posix=True, punctuation_chars=";&|()<>\n")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t", True, ""
    words: list[str] = []
    skip = False
    for token in [*lexer, "\n"]:
        if _ENDS.fullmatch(token):
            if words:
                yield words
            words, skip = [], False
        elif token in ("<", ">"):
            skip = True
        elif skip or token in ("...", "…"):
            skip = False
        else:
            words.append(token)


def python_programs(code: str) -> list[str]:
    """The programs that a shell block gives to ``python -`` as here-documents."""
    found = _HERE_DOCUMENT.finditer(code)
    return [one["body"] for one in found if re.match(r" *python -( |$)", one["before"])]


def problem_of(words: list[str]) -> str:
    """What is wrong with one command, or nothing."""
    program, *rest = words
    program = program.rpartition("/")[2]
    if program == "torchrun" and "-m" in rest:  # what it starts is ours
        program, rest = "python", rest[rest.index("-m") :]
    if program == "python" and rest[:2] == ["-m", "pocketquery.sdk"]:
        program, rest = "pocketquery", rest[2:]
    if program == "pocketquery":
        return _unparsed(tuple(rest))
    if program == "python":
        return "" if rest[0] in ("-", "-c") else _unknown_options(rest)
    if program == "pip":
        return _unknown_extra(rest)
    if program == "make":
        makefile = (ROOT / "Makefile").read_text("utf-8")
        unknown = sorted(set(rest) - set(re.findall(r"^([\w-]+):", makefile, re.MULTILINE)))
        return f"no such target: {unknown}" if unknown else ""
    return "" if program in _OTHERS else f"unknown program {program}"


@cache
def _parser() -> argparse.ArgumentParser:
    return whole_parser()


def _unparsed(arguments: tuple[str, ...]) -> str:
    if not arguments:
        return ""
    try:
        _parser().parse_args(arguments)
    except SystemExit as error:
        return f"pocketquery {shlex.join(arguments)} does not parse" if error.code else ""
    return ""


def _unknown_options(words: list[str]) -> str:
    """Of a script or module of ours: is it there, and does it name its actions and options?"""
    module = words[1].removeprefix("pocketquery.").replace(".", "/") if words[0] == "-m" else ""
    top = ROOT / "research" if module.startswith("pocketquery_research/") else ROOT
    path = top / (f"{module}.py" if module else words[0])
    if not path.is_file():
        return f"there is no {path.relative_to(ROOT)}"
    source = path.read_text("utf-8")
    for name in re.findall(r"^from (\w+) import", source, re.MULTILINE):  # what lies beside it
        beside = path.with_name(f"{name}.py")
        source += beside.read_text("utf-8") if beside.is_file() else ""
    given = words[2:] if module else words[1:]
    said = [word for word in given if word.startswith("--")] + [w for w in given[:1] if w.isalpha()]
    unknown = [word for word in said if word != "--help" and f'"{word}"' not in source]
    return f"{path.relative_to(ROOT)} knows no {unknown}" if unknown else ""


def _unknown_extra(words: list[str]) -> str:
    unknown = []
    for folder, named in re.findall(r"(\./\S+)?\[([a-z,-]+)\]", " ".join(words)):
        project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text("utf-8"))["project"]
        unknown += sorted(set(named.split(",")) - set(project["optional-dependencies"]))
    return f"no such extra: {unknown}" if unknown else ""


def problems_of_python(code: str) -> list[str]:
    """Names of ours that a block imports and are not there, and keywords they do not take."""
    tree = ast.parse(code)
    known: dict[str, object] = {}
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or node.module is None:
            continue
        if not node.module.startswith("pocketquery"):
            continue
        for name in node.names:
            try:
                module = importlib.import_module(node.module)
                value = getattr(module, name.name, None)
                value = value or importlib.import_module(f"{node.module}.{name.name}")
            except ImportError as error:
                found.append(f"from {node.module} import {name.name}: {error}")
            else:
                known[name.asname or name.name] = value
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            found += _unknown_keywords(node, known)
    return found


def _unknown_keywords(call: ast.Call, known: dict[str, object]) -> Iterator[str]:
    names = ast.unparse(call.func).split(".")
    if names[0] not in known or not all(name.isidentifier() for name in names):
        return  # not ours, or of what a call returned
    value = known[names[0]]
    for name in names[1:]:
        if not hasattr(value, name):
            yield f"{'.'.join(names)}: there is no {name}"
            return
        value = getattr(value, name)
    if not callable(value):
        return
    taken = inspect.signature(value).parameters.values()
    if any(one.kind is one.VAR_KEYWORD for one in taken):
        return
    unknown = {word.arg for word in call.keywords} - {one.name for one in taken}
    if unknown:
        yield f"{'.'.join(names)} takes no {sorted(map(str, unknown))}"
