"""``pocketquery package``: a bundle becomes a Python package that pip installs.

Where it is installed beside pocketquery, the encoder has its name: ``sdk.load("acme-search")``.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.bundle.installed import DEFAULT
from pocketquery.sdk.bundle.manifest import MANIFEST_FILE, MOST_MANIFEST_BYTES, SIGNATURE_FILE
from pocketquery.sdk.bundle.writing import BUNDLE_FOLDER
from pocketquery.sdk.commands import chosen_public_key
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.folders import check_replaceable, replace_folder
from pocketquery.sdk.settings.command_line import add_settings_command
from pocketquery.sdk.settings.common import AsJson, PublicKey
from pocketquery.sdk.settings.declaration import Option, Settings

__all__ = ["CARD", "package", "write_package"]

CARD = "README.md"
"""The model card in a bundle's folder, which the manifest does not name: no device reads it."""

_EPILOG = """\
examples:
  pocketquery package --bundle bundle --name acme-search --output packages/acme-search
  pip install ./packages/acme-search
  pocketquery encode --bundle acme-search "how do I get a refund"
"""
_OWN_DISTRIBUTION = "pocketquery"  # what the package depends on
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_VERSION = re.compile(r"\d+(\.\d+)*((a|b|rc)\d+)?(\.(post|dev)\d+)?")
_BUILD_FOLDERS = ("build", "dist")  # folders that pip and build leave
_PROJECT = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "{name}"
version = "{version}"
description = {description}
readme = "README.md"
requires-python = ">=3.11"
dependencies = ["pocketquery"]
{license_line}
{entry}
[tool.setuptools]
packages = ["{module}"]

[tool.setuptools.package-data]
{module} = ["bundle/*"]
"""
_ENTRY = """\
[project.entry-points."pocketquery.bundles"]
{name} = "{module}:bundle"
"""
_README = """\
# {name}

The query encoder {bundle} (version {encoder_version}) for pocketquery: {megabytes:.1f} MB, space
`{space}`, {dimension} dimensions, licence {license}. It reads {languages}.

```python
from pocketquery import sdk

encoder = sdk.load("{name}")
encoder.encode("how do I get a refund")
```
"""


@dataclass(frozen=True, kw_only=True)
class PackageOptions(Settings):
    """What ``pocketquery package`` takes."""

    bundle: Annotated[str, "a folder or a zip"]
    name: Annotated[str, "of the package and of the bundle in it: acme-search"]
    output: Annotated[str, "the package's project folder", Option("FOLDER")]
    version: Annotated[str, "of the package"] = "1.0"
    public_key: PublicKey = None
    json: AsJson = False


def package(subparsers: Any) -> None:
    """Add ``pocketquery package`` to the shell's parsers."""
    add_settings_command(
        subparsers,
        "package",
        "Make a Python package of a bundle, which pip installs and its name opens.",
        _EPILOG,
        PackageOptions,
        _package,
    )


def write_package(
    bundle: Bundle, output: Path | str, *, name: str, version: str = "1.0"
) -> dict[str, str]:
    """Write the project of a data package: ``pip install OUTPUT`` installs it, or ``pip wheel``
    makes a wheel of it.

    Args:
        bundle: what it carries; every file is checked, and a signature is packed too. A README.md
            beside them becomes a part of the package's.
        output: the folder; one that holds such a package is replaced.
        name: of the package, and under which :func:`sdk.load` finds the bundle.
        version: of the package.

    Returns:
        What was written: name, module, version, path.

    Raises:
        InvalidInputError: a name or version that no package can have, or ``output`` holds
            something else, or anything beside what this wrote and a build leaves.
        CorruptArtifactError: a file of the bundle is not as described.
    """
    if not _NAME.fullmatch(name) or name in (DEFAULT, _OWN_DISTRIBUTION):
        raise InvalidInputError(
            f"the package's name is {name!r}; expected lower-case words joined by hyphens, such as "
            f"acme-search, and neither {DEFAULT!r} nor {_OWN_DISTRIBUTION!r}"
        )
    if not _VERSION.fullmatch(version):
        raise InvalidInputError(f"the package's version is {version!r}; expected one such as 1.0")
    output, module = Path(output), name.replace("-", "_")
    _check_replaced(output, module, name)
    manifest = bundle.manifest
    values = {
        "name": name,
        "module": module,
        "version": version,
        "bundle": manifest.name,
        "encoder_version": manifest.encoder_version,
        "megabytes": sum(entry.bytes for entry in manifest.files.values()) / 1e6,
        "space": manifest.space.id,
        "dimension": manifest.space.dimension,
        "license": manifest.license,
        "languages": ", ".join(manifest.languages) or "languages that its manifest does not list",
        "license_line": _license_line(manifest.license),
        "entry": _ENTRY.format(name=name, module=module),
        "description": json.dumps(
            f"A query encoder for pocketquery: {manifest.name}", ensure_ascii=False
        ),
    }
    with replace_folder(output) as folder:
        place = folder / module / "bundle"
        place.mkdir(parents=True)
        for file in manifest.files:
            (place / file).write_bytes(bundle.read(file))
        (place / MANIFEST_FILE).write_bytes(bundle.manifest_bytes)
        if bundle.storage.size(SIGNATURE_FILE) is not None:
            signature = bundle.storage.read(SIGNATURE_FILE, MOST_MANIFEST_BYTES)
            (place / SIGNATURE_FILE).write_bytes(signature)
        (folder / module / "__init__.py").write_text(
            f'"""The bundle {name}; sdk.load("{name}") opens it."""\n'
        )
        (folder / "pyproject.toml").write_text(_PROJECT.format(**values), encoding="utf-8")
        page = _README.format(**values) + _model_card(bundle)
        (folder / "README.md").write_text(page, encoding="utf-8")
    return {"name": name, "module": module, "version": version, "path": str(output)}


def _check_replaced(output: Path, module: str, name: str) -> None:
    """Raise unless all of ``output`` is ours, or is made anew by the next build."""
    if not output.exists() or (output.is_dir() and not any(output.iterdir())):
        return
    project = output / "pyproject.toml"
    written = project.read_bytes() if project.is_file() else b""
    if _ENTRY.format(name=name, module=module).encode() not in written:
        raise InvalidInputError(
            f"{output} exists and is not the package {name}; it is left alone. Name another place"
        )
    ours = {project.name, "README.md", module, *_BUILD_FOLDERS, f"{module}.egg-info"}
    added = [one for one in output.iterdir() if one.name not in ours]
    added += [
        one
        for one in (output / module).glob("*")
        if one.name not in ("__init__.py", "__pycache__", "bundle")
    ]
    if added:
        raise InvalidInputError(
            f"{output} holds {added[0].relative_to(output)}, which is not of the package and would "
            "be gone; move it away, or name another place"
        )
    check_replaceable(output / module / "bundle", BUNDLE_FOLDER)


def _model_card(bundle: Bundle) -> str:
    """The page that lies beside the bundle's files, which the manifest does not name."""
    if bundle.storage.size(CARD) is None:
        return ""
    card = bundle.storage.read(CARD, MOST_MANIFEST_BYTES).decode("utf-8", "replace")
    return "\n" + re.sub(r"\A# ", "## ", card)  # its title, beneath the package's


def _license_line(license: str) -> str:
    """The project's licence, where it is an SPDX expression: a build takes no other one."""
    try:
        from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
    except ImportError:  # the README says it anyway
        return ""
    try:
        return f'license = "{canonicalize_license_expression(license)}"\n'
    except InvalidLicenseExpression:
        return ""


def _package(options: PackageOptions) -> int:
    bundle = Bundle.open(options.bundle, public_key=chosen_public_key(options))
    written = write_package(bundle, options.output, name=options.name, version=options.version)
    if options.json:
        print(json.dumps(written))
        return 0
    print(f"{options.output}: {options.name} {options.version}, of {bundle.manifest.name}")
    print(f"  install    pip install {options.output}")
    print(f'  open       sdk.load("{options.name}")')
    return 0
