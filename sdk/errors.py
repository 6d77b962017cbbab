"""The exceptions pocketquery raises on purpose.

    PocketQueryError
    ├── InvalidInputError (ValueError)        a text, vector or argument that cannot be used
    ├── CorpusError (ValueError)              a line of a corpus, query or judgement file
    ├── UnknownModelError (ValueError)        a model name or folder that cannot be loaded
    ├── MissingExtraError (ImportError)       an optional dependency is not installed
    ├── SpaceMismatchError (ValueError)       two artefacts live in different vector spaces
    └── ArtifactError                         a bundle, index or checkpoint on disk
        ├── ArtifactNotFoundError (FileNotFoundError)
        ├── CorruptArtifactError              truncated, tampered or not of this format
        ├── UnsupportedVersionError           written by a newer version
        ├── SignatureError                    absent or not made by the expected key
        └── RollbackError                     older than what is in force, and not on purpose

Every message says what was found, what was expected and what to do next.
"""

from __future__ import annotations

__all__ = [
    "PocketQueryError",
    "InvalidInputError",
    "CorpusError",
    "UnknownModelError",
    "MissingExtraError",
    "SpaceMismatchError",
    "ArtifactError",
    "ArtifactNotFoundError",
    "CorruptArtifactError",
    "UnsupportedVersionError",
    "SignatureError",
    "RollbackError",
    "PocketQueryWarning",
]


class PocketQueryWarning(UserWarning):
    """Something that can be used, and may not be what the caller meant."""


class PocketQueryError(Exception):
    """Base of every error pocketquery raises on purpose."""


class InvalidInputError(PocketQueryError, ValueError):
    """An argument (text, vector, filter, option) that cannot be used."""


class CorpusError(PocketQueryError, ValueError):
    """A line of a corpus, query or judgement file that cannot be read; names file and line."""


class UnknownModelError(PocketQueryError, ValueError):
    """A model name or folder that cannot be loaded."""


class MissingExtraError(PocketQueryError, ImportError):
    """An optional dependency is missing; the message names the extra to install."""

    @classmethod
    def of(cls, package: str, extra: str) -> MissingExtraError:
        """The error for ``package``, which ``pip install "pocketquery[extra]"`` brings."""
        return cls(
            f'the package "{package}" is needed here and is not installed; '
            f'install it with: pip install "pocketquery[{extra}]"'
        )


class SpaceMismatchError(PocketQueryError, ValueError):
    """Two artefacts live in different vector spaces, so their vectors cannot be compared."""

    @classmethod
    def between(cls, left: str, left_id: str, right: str, right_id: str) -> SpaceMismatchError:
        """The error for ``left`` (say "the index docs/") and ``right`` with their space ids."""
        return cls(
            f"{left} lives in space {left_id}, but {right} in space {right_id}; vectors of "
            "different spaces cannot be compared. Use the encoder that was distilled for this "
            "index, or build the index again with this encoder's teacher."
        )


class ArtifactError(PocketQueryError):
    """A bundle, index or checkpoint on disk that cannot be used."""


class ArtifactNotFoundError(ArtifactError, FileNotFoundError):
    """The artefact, or one of its files, is not there."""


class CorruptArtifactError(ArtifactError):
    """The artefact is truncated, was changed after it was written, or is of another format."""


class UnsupportedVersionError(ArtifactError):
    """The artefact was written in a format version this release cannot read."""


class SignatureError(ArtifactError):
    """The signature is absent, malformed or not made by the expected key."""


class RollbackError(ArtifactError):
    """A release, or a statement of what is in force, is older than what is in force here, and no
    signed statement says that going back is meant."""
