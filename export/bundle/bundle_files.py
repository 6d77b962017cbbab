"""The files of a bundle, replayed by the device's own code before they are published."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import numpy as np
import onnx

from pocketquery.export.adapter import adapter_tensors
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.bundle.golden import GoldenText, golden_json
from pocketquery.sdk.bundle.manifest import ADAPTER_FILE, ENCODER_FILE, GOLDEN_FILE, Manifest
from pocketquery.sdk.bundle.safetensors import serialize
from pocketquery.sdk.bundle.signature import Key, public_key_of
from pocketquery.sdk.bundle.writing import file_entries, pack, write_bundle
from pocketquery.sdk.doctor.verification import verify
from pocketquery.sdk.encoder import Encoder
from pocketquery.sdk.files import make_folder
from pocketquery.server.modeling.tokenizer_file import TokenizerFile

__all__ = ["publish"]


def publish(
    output: Path,
    manifest: Manifest,
    file: TokenizerFile,
    model: onnx.ModelProto,
    golden_texts: Sequence[str],
    signing_key: Key | None,
    more: Mapping[str, bytes] = MappingProxyType({}),
) -> Manifest:
    """Write the bundle to ``output``, a folder or a ``.zip``, after verifying a draft of it.

    Args:
        output: an older bundle there is replaced in one step.
        manifest: everything but the files.
        file: the tokenizer.
        model: the int8 graph.
        golden_texts: stored with their ids and vectors.
        signing_key: Ed25519 private key, or None.
        more: further files by name, say a training step's.

    Returns:
        The manifest as written.

    Raises:
        CorruptArtifactError: the draft does not give its own golden vectors.
        OSError: the disk is full or not writable; ``output`` is as it was before.
    """
    files = {ENCODER_FILE: model.SerializeToString(deterministic=True), file.file: file.data}
    files |= more
    adapter = adapter_tensors(model)
    if adapter:
        files[ADAPTER_FILE] = serialize({n: t.astype(np.float16) for n, t in adapter.items()})
    with tempfile.TemporaryDirectory(prefix="pocketquery-") as folder:
        draft = Path(folder) / "bundle"
        files[GOLDEN_FILE] = golden_json([])
        write_bundle(draft, _with_files(manifest, files), files)
        files[GOLDEN_FILE] = _golden(draft, golden_texts)
        manifest = _with_files(manifest, files)
        written = write_bundle(draft, manifest, files, signing_key=signing_key)
        key = None if signing_key is None else public_key_of(signing_key)
        verify(draft, public_key=key)
        if output.suffix == ".zip":
            make_folder(output.parent)
            pack(draft, output)
            return written
    return write_bundle(output, manifest, files, signing_key=signing_key)


def _golden(bundle: Path, texts: Sequence[str]) -> bytes:
    """The golden texts with the ids and vectors the device's own code gives."""
    encoder = Encoder.of_bundle(Bundle.open(bundle))
    goldens = []
    for text in texts:
        vector = tuple(float(value) for value in encoder.encode(text, prompt=""))
        goldens.append(GoldenText(text, tuple(encoder.tokenize(text)), vector))
    return golden_json(goldens)


def _with_files(manifest: Manifest, files: Mapping[str, bytes]) -> Manifest:
    return manifest._replace(files=file_entries(files))
