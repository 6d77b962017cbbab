/**
 * The exceptions pocketquery raises on purpose: the classes of Python's `pocketquery.sdk.errors`,
 * so that a program says the same on every platform, and two of a browser's storage.
 *
 *     PocketQueryError
 *     ├── InvalidInputError         a text, vector or argument that cannot be used
 *     ├── MissingExtraError         something the platform or an optional package must bring is not there
 *     ├── SpaceMismatchError        two artefacts live in different vector spaces
 *     └── ArtifactError             a bundle, index or adapter
 *         ├── ArtifactNotFoundError
 *         ├── CorruptArtifactError      truncated, tampered or not of this format
 *         ├── UnsupportedVersionError   written by a newer version
 *         ├── SignatureError            absent or not made by the expected key
 *         ├── RollbackError             older than what is in force here
 *         ├── StorageFullError          the disk, or what the browser allows the site, is full
 *         └── ChangedElsewhereError     another tab or program writes, or replaced what was read
 *
 * Every message says what was found, what was expected and what to do next.
 */

/** Base of every error pocketquery raises on purpose. */
export class PocketQueryError extends Error {
  static override readonly name: string = "PocketQueryError";

  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** An argument (text, vector, filter, option) that cannot be used. */
export class InvalidInputError extends PocketQueryError {
  static override readonly name = "InvalidInputError";
}

/** Something the platform or an optional package brings is not there; the message names it. */
export class MissingExtraError extends PocketQueryError {
  static override readonly name = "MissingExtraError";
}

/** Two artefacts live in different vector spaces, so their vectors cannot be compared. */
export class SpaceMismatchError extends PocketQueryError {
  static override readonly name = "SpaceMismatchError";

  /** The error for `left` (say "the index docs/") and `right` with their space ids. */
  static between(left: string, leftId: string, right: string, rightId: string): SpaceMismatchError {
    return new SpaceMismatchError(
      `${left} lives in space ${leftId}, but ${right} in space ${rightId}; vectors of ` +
        "different spaces cannot be compared. Name the encoder that the index was made with " +
        "(--bundle NAME), or build the index again with this one.",
    );
  }
}

/** A bundle, index or adapter that cannot be used. */
export class ArtifactError extends PocketQueryError {
  static override readonly name: string = "ArtifactError";
}

/** The artefact, or one of its files, is not there. */
export class ArtifactNotFoundError extends ArtifactError {
  static override readonly name = "ArtifactNotFoundError";
}

/** The artefact is truncated, was changed after it was written, or is of another format. */
export class CorruptArtifactError extends ArtifactError {
  static override readonly name = "CorruptArtifactError";
}

/** The artefact was written in a format version this release cannot read. */
export class UnsupportedVersionError extends ArtifactError {
  static override readonly name = "UnsupportedVersionError";
}

/** The signature is absent, malformed or not made by the expected key. */
export class SignatureError extends ArtifactError {
  static override readonly name = "SignatureError";
}

/** A release, or a statement of what is in force, is older than what is in force here. */
export class RollbackError extends ArtifactError {
  static override readonly name = "RollbackError";
}

/** The disk, or what the browser allows this site, is full: nothing was changed. Deleting makes room. */
export class StorageFullError extends ArtifactError {
  static override readonly name = "StorageFullError";
}

/** Another tab or program is writing, or has changed what was read: nothing was changed. */
export class ChangedElsewhereError extends ArtifactError {
  static override readonly name = "ChangedElsewhereError";
}

/** Every class above by its name: how an error crosses a worker's border (see rpc.ts). */
export const ERROR_CLASSES: Readonly<Record<string, new (message: string) => PocketQueryError>> = {
  PocketQueryError,
  InvalidInputError,
  MissingExtraError,
  SpaceMismatchError,
  ArtifactError,
  ArtifactNotFoundError,
  CorruptArtifactError,
  UnsupportedVersionError,
  SignatureError,
  RollbackError,
  StorageFullError,
  ChangedElsewhereError,
};
