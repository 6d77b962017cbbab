"""Importing the device side imports nothing heavy, in a process of its own."""

from __future__ import annotations

import json
import site
import subprocess
import sys
from pathlib import Path

import pytest

from pocketquery.sdk import __file__ as sdk_folder

HEAVY = {
    "torch",
    "transformers",
    "tokenizers",
    "onnx",
    "flwr",
    "huggingface_hub",
    "optimum",
    "sentence_transformers",
    "safetensors",
    "cryptography",
    "tqdm",
}


def loaded_by(code: str, *options: str) -> set[str]:
    """The top-level modules loaded after running ``code`` in a fresh interpreter."""
    report = "\nimport json, sys; print(json.dumps(sorted(sys.modules)))"
    result = subprocess.run(
        [sys.executable, *options, "-c", code + report], capture_output=True, text=True, check=True
    )
    return {name.partition(".")[0] for name in json.loads(result.stdout.splitlines()[-1])}


def test_importing_the_sdk_loads_nothing_heavy_and_not_even_numpy() -> None:
    loaded = loaded_by("import pocketquery.sdk")
    assert not loaded & (HEAVY | {"numpy", "onnxruntime", "sentencepiece", "simsimd"})


def test_touching_every_public_name_loads_nothing_heavy() -> None:
    loaded = loaded_by(
        "from pocketquery import sdk\nfor name in sdk.__all__: getattr(sdk, name)\n"
        "import pocketquery.sdk.cli, pocketquery.sdk.commands"
    )
    assert not loaded & HEAVY
    assert "onnxruntime" not in loaded  # only loading a bundle or searching an index needs it


def test_the_help_of_the_command_line_loads_neither_numpy_nor_any_room() -> None:
    loaded = loaded_by(
        "from pocketquery.sdk.cli import main\nmain([])\n"
        "import sys; assert not [m for m in sys.modules if m.startswith('pocketquery.server')]"
    )
    assert not loaded & (HEAVY | {"numpy", "onnxruntime"})


@pytest.mark.parametrize("encode", ["sdk.encode('x')", "sdk.load(sdk_default).encode('x')"])
def test_the_first_vector_does_without_what_takes_milliseconds(encode: str, tmp_path: Path) -> None:
    (tmp_path / "pocketquery").mkdir()
    (tmp_path / "pocketquery" / "sdk").symlink_to(Path(sdk_folder).parent)
    # Without site: an editable install's finder imports pathlib itself.
    code = f"import sys; sys.path[:0] = {[str(tmp_path), *site.getsitepackages()]}\n"
    code += f"sdk_default = {str(Path(sdk_folder).parent / 'default')!r}\n"
    code += f"from pocketquery import sdk; {encode}"
    assert not loaded_by(code, "-S") & {"pathlib", "threading", "glob", "urllib"}


def test_onnxruntime_itself_loads_nothing_heavy() -> None:
    assert not loaded_by("import onnxruntime, sentencepiece, numpy") & HEAVY


@pytest.mark.parametrize("name", ["nonsense", "_private"])
def test_a_name_that_is_not_there_is_an_attribute_error(name: str) -> None:
    from pocketquery import sdk

    with pytest.raises(AttributeError, match=f"'pocketquery.sdk' has no attribute '{name}'"):
        getattr(sdk, name)


def test_dir_lists_the_public_names() -> None:
    from pocketquery import sdk

    assert [name for name in dir(sdk) if name[:2] != "__"] == sorted(sdk.__all__)
