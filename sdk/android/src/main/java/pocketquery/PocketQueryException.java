package pocketquery;

/**
 * What this library throws on purpose, by the names of Python's {@code sdk/errors.py}. Each message says what was found,
 * what was expected and what to do.
 *
 * <pre>try { Index.open(folder, database, null); } catch (PocketQueryException.ArtifactError e) { show(e.getMessage()); }</pre>
 */
public class PocketQueryException extends RuntimeException {
    PocketQueryException(String message) {
        super(message);
    }

    /** An argument (text, vector, filter, option) that cannot be used. */
    public static final class InvalidInputError extends PocketQueryException {
        InvalidInputError(String message) {
            super(message);
        }
    }

    /** Two artefacts are of different vector spaces. */
    public static final class SpaceMismatchError extends PocketQueryException {
        SpaceMismatchError(String message) {
            super(message);
        }

        SpaceMismatchError(String left, String leftId, String right, String rightId) {
            super(left + " lives in space " + leftId + ", but " + right + " in space " + rightId + "; vectors of different spaces"
                + " cannot be compared. Name the encoder that the index was made with (--bundle NAME), or build the index again with"
                + " this one.");
        }
    }

    /** A bundle, index or release that cannot be used. */
    public static class ArtifactError extends PocketQueryException {
        ArtifactError(String message) {
            super(message);
        }
    }

    /** The artefact, or one of its files, is not there. */
    public static final class ArtifactNotFoundError extends ArtifactError {
        ArtifactNotFoundError(String message) {
            super(message);
        }
    }

    /** Truncated, changed after it was written, or of another format. */
    public static final class CorruptArtifactError extends ArtifactError {
        CorruptArtifactError(String message) {
            super(message);
        }
    }

    /** Of a version of the format that this library does not read. */
    public static final class UnsupportedVersionError extends ArtifactError {
        UnsupportedVersionError(String message) {
            super(message);
        }
    }

    /** The signature is absent, malformed or not made by the expected key. */
    public static final class SignatureError extends ArtifactError {
        SignatureError(String message) {
            super(message);
        }
    }
}
