"""Open an ONNX model from elsewhere only if the file holds all of its data.

A tensor may say that its values are in another file; onnxruntime would then read whatever file of
the device is named there, outside the bundle's hashes, or an address of the process's memory. No
option of a session forbids it, so the model is looked through first. Protocol buffers are fields of
a number, a type and a length, so only the messages that lead to a tensor are opened and the weights
are skipped: three milliseconds for 18 MB. The package ``onnx`` is not needed.

Source: onnx/onnx.proto.
"""

from __future__ import annotations

import mmap
import os
import weakref
from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

from pocketquery.sdk.bundle.protobuf import fields_of
from pocketquery.sdk.errors import CorruptArtifactError

if TYPE_CHECKING:
    import onnxruntime

__all__ = ["AnonymousFile", "check_self_contained", "open_session"]

_Message: TypeAlias = Mapping[int, str]  # the fields worth opening, and what they hold

# Every way from a model to a tensor (a test compares it with the package onnx).
MESSAGES: Mapping[str, _Message] = {
    "ModelProto": {7: "GraphProto", 20: "TrainingInfoProto", 25: "FunctionProto"},
    "TrainingInfoProto": {1: "GraphProto", 2: "GraphProto"},
    "FunctionProto": {7: "NodeProto", 11: "AttributeProto"},
    "GraphProto": {1: "NodeProto", 5: "TensorProto", 15: "SparseTensorProto"},
    "NodeProto": {5: "AttributeProto"},
    "AttributeProto": {
        5: "TensorProto",
        6: "GraphProto",
        10: "TensorProto",
        11: "GraphProto",
        22: "SparseTensorProto",
        23: "SparseTensorProto",
    },
    "SparseTensorProto": {1: "TensorProto", 2: "TensorProto"},
    "TensorProto": {},
}
_EXTERNAL_DATA, _DATA_LOCATION = 13, 14  # of a TensorProto
_MOST_NESTING = 64  # messages inside one another; a graph in a graph takes three
_PROVIDERS = ["CPUExecutionProvider"]


class AnonymousFile:
    """A file in memory without a name, written once and then read by :attr:`path` or :meth:`view`.

    onnxruntime copies a model given as bytes before it reads it. One named by a path is not copied,
    but between the check and the opening somebody may change the file. Nobody can change this one.
    Filled in pieces that stay in the processor's cache, it saves two copies of the model: 14 % of
    the time of making a session of 18 MB, and the memory. It is gone when the object is.

    Source: memfd_create(2).

    Attributes:
        path: where this process, and no other user's, can open it.

    Raises:
        OSError: the system has none, or lets none be opened by a path (no /proc).
    """

    def __init__(self, name: str) -> None:
        if not hasattr(os, "memfd_create"):
            raise OSError("this system has no anonymous files")
        self._descriptor = os.memfd_create(name)
        # Unlike __del__, not called while the interpreter shuts down and modules are half gone.
        weakref.finalize(self, os.close, self._descriptor).atexit = False
        self.path = f"/proc/self/fd/{self._descriptor}"
        os.close(os.open(self.path, os.O_RDONLY))  # refused where /proc is another's, or not there

    def __len__(self) -> int:
        return os.fstat(self._descriptor).st_size

    def write(self, piece: bytes | memoryview) -> None:
        """Add ``piece`` at the end.

        Raises:
            OSError: there is no memory left.
        """
        rest = memoryview(piece)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]

    def view(self) -> bytes | mmap.mmap:
        """All of it, to read in place."""
        return mmap.mmap(self._descriptor, 0, prot=mmap.PROT_READ) if len(self) else b""


def open_session(
    model: bytes | AnonymousFile, options: onnxruntime.SessionOptions, source: str
) -> onnxruntime.InferenceSession:
    """A session over ``model``, which may not read anything beside its own bytes.

    Args:
        model: an ONNX file: its bytes, or a file that nobody else can change.
        options: the session's; the model's format is set in it, and threads beyond the machine's
            cores, which would wait for one another, are taken out.
        source: how to call the model in an error, say "the bundle's encoder.onnx".

    Raises:
        CorruptArtifactError: it has values elsewhere, or onnxruntime cannot load it.
    """
    import onnxruntime  # here: it takes 25 ms, and help or a wrong path need none of it

    if isinstance(model, bytes):
        check_self_contained(model, source)
        opened: bytes | str = model
    else:
        check_self_contained(model.view(), source)
        opened = model.path
    # onnxruntime's own format, which it else guesses from the bytes, was not looked through.
    options.add_session_config_entry("session.load_model_format", "ONNX")
    options.intra_op_num_threads = min(options.intra_op_num_threads, os.cpu_count() or 1)
    try:
        session = onnxruntime.InferenceSession(opened, options, providers=_PROVIDERS)
        _ask_names(session)
        return session
    except Exception as error:  # onnxruntime's exceptions share no base class
        raise CorruptArtifactError(f"{source}: onnxruntime cannot load it: {error}") from error


def _ask_names(session: onnxruntime.InferenceSession) -> None:
    """Ask for every text of the model's signature: what is no UTF-8 is noticed only then."""
    slots = (session.get_inputs(), session.get_outputs(), session.get_overridable_initializers())
    for slot in chain.from_iterable(slots):
        _ = slot.name, slot.type, slot.shape
    _ = session.get_modelmeta().custom_metadata_map


def check_self_contained(model: bytes | mmap.mmap, source: str) -> None:
    """Return where every tensor of ``model`` has its values in it.

    Raises:
        CorruptArtifactError: one has not, or ``model`` is no sequence of fields.
    """
    waiting = [("ModelProto", 0, len(model), 1)]
    while waiting:
        kind, start, stop, depth = waiting.pop()
        if depth > _MOST_NESTING:
            raise CorruptArtifactError(f"{source}: found graphs nested deeper than {_MOST_NESTING}")
        inside = MESSAGES[kind]
        try:
            for tag, begin, end, value in fields_of(model, start, stop):
                number = tag >> 3
                if kind == "TensorProto":
                    if number == _EXTERNAL_DATA or (number == _DATA_LOCATION and value):
                        raise CorruptArtifactError(
                            f"{source}: a tensor has its values in another file, expected all of "
                            "them in the model; export it without external data"
                        )
                elif number in inside:
                    waiting.append((inside[number], begin, end, depth + 1))
        except (IndexError, ValueError) as error:
            raise CorruptArtifactError(
                f"{source}: not an ONNX model: {kind} at byte {start} is broken ({error})"
            ) from error
