package pocketquery;

import java.io.File;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import pocketquery.PocketQueryException.ArtifactNotFoundError;
import pocketquery.PocketQueryException.CorruptArtifactError;
import pocketquery.PocketQueryException.SignatureError;
import pocketquery.PocketQueryException.SpaceMismatchError;
import pocketquery.PocketQueryException.UnsupportedVersionError;

/**
 * An adapter release: a small file that makes a bundle's encoder a newer one, by {@code docs/formats/releases.md}.
 *
 * <pre>
 * Release release = Release.read(new File("adapter.safetensors"), bundle, publicKey);
 * if (Release.isOlder(encoder.version(), release.version)) encoder.swapAdapter(release);
 * </pre>
 */
public final class Release {
    private static final int LARGEST = 100_000, MOST_TEXT = 1024;
    private static final Pattern VERSION_PART = Pattern.compile("\\p{Nd}+|\\P{Nd}+");
    /** Of the encoder that results, and of the one it was trained from (null for none). */
    public final String version, parentVersion;
    public final String spaceId, encoderSha256;
    /** Of the whole file. */
    public final String sha256;
    /** The id of the key that its signature was checked with; null where no key was given. */
    public final String signedBy;
    final Map<String, Safetensors.Tensor> tensors;
    private final String name;

    /**
     * The release in a file, where it is sound and made for this bundle.
     *
     * @param publicKey 32 bytes: it must be signed by its private half; null: by the key that the bundle was opened with, if any
     * @throws PocketQueryException.ArtifactError it is missing, was changed, is of a newer version, for another encoder, or signed by another
     * @throws SpaceMismatchError it is of another space
     */
    public static Release read(File file, Bundle bundle, byte[] publicKey) {
        if (!file.isFile()) {
            throw new ArtifactNotFoundError("'" + file + "': found no adapter release there, expected a file that rounds or pocketquery releases wrote");
        }
        Release release = parse(Source.plain(file.toPath(), LARGEST + 1), file.toString(), publicKey == null ? bundle.publicKey : publicKey);
        release.checkBelongs(bundle);
        return release;
    }

    /** The release in {@code data}, of any bundle. */
    static Release parse(byte[] data, String name, byte[] publicKey) {
        if (data.length > LARGEST) throw new CorruptArtifactError(name + ": more than " + LARGEST + " bytes, which no adapter release has");
        Safetensors file = new Safetensors(data, name);
        if (publicKey != null) checkSigned(file.metadata, publicKey, name);
        return new Release(data, file, publicKey == null ? null : Signatures.keyId(publicKey), name);
    }

    private Release(byte[] data, Safetensors file, String signedBy, String name) {
        this.name = name;
        this.signedBy = signedBy;
        Fields fields = Fields.of(file.metadata, name);
        checkFormat(fields, name);
        for (Object text : file.metadata.values()) checkText((String) text, name);
        for (Map<String, ?> some : List.of(file.metadata, file.tensors)) for (String text : some.keySet()) checkText(text, name);
        checkDigest("content_sha256", canonical(file.metadata, "content_sha256"), file.metadata, name);
        checkDigest("tensors_sha256", file.written(false), file.metadata, name);
        if (!Arrays.equals(file.written(true), data)) {
            throw new CorruptArtifactError(name + ": not in the bytes a release is written in; it was changed. Fetch it again");
        }
        version = fields.text("encoder_version", MOST_TEXT);
        parentVersion = fields.textOrNull("parent_version", MOST_TEXT);
        spaceId = fields.text("space_id", MOST_TEXT);
        encoderSha256 = fields.text("encoder_sha256", MOST_TEXT);
        sha256 = Text.sha256(data, 0, data.length);
        tensors = file.tensors;
        tensors.forEach((tensor, one) -> {
            if (one.dtype.equals("F16") && one.values() != null) return;
            throw new CorruptArtifactError(name + ": adapter tensor '" + tensor + "' holds " + (one.dtype.equals("F16") ? "NaN or infinity" : one.dtype)
                + ", expected finite float16");
        });
    }

    /** Throws SpaceMismatchError or CorruptArtifactError where it is of another bundle. */
    void checkBelongs(Bundle bundle) {
        if (!spaceId.equals(bundle.spaceId)) {
            throw new SpaceMismatchError(name + ": the adapter is of space " + spaceId + ", the bundle '" + bundle.name + "' lives in space "
                + bundle.spaceId + "; fetch the adapter of this bundle");
        }
        if (encoderSha256.equals(bundle.sha256("encoder.onnx"))) return;
        throw new CorruptArtifactError(name + ": the adapter is for the encoder.onnx with SHA-256 " + encoderSha256 + ", the bundle '" + bundle.name
            + "' has " + bundle.sha256("encoder.onnx") + "; fetch the adapter of this bundle");
    }

    /** Whether a version comes before another: runs of digits, of any script, are compared as numbers, and come after any other run. */
    public static boolean isOlder(String version, String other) {
        Matcher one = VERSION_PART.matcher(version);
        Matcher two = VERSION_PART.matcher(other);
        while (one.find()) {
            if (!two.find()) return false;
            boolean isNumber = Character.isDigit(one.group().codePointAt(0));
            if (isNumber != Character.isDigit(two.group().codePointAt(0))) return !isNumber;
            int order = isNumber ? number(one.group()).compareTo(number(two.group())) : Text.compare(one.group(), two.group());
            if (order != 0) return order < 0;
        }
        return two.find();
    }

    private static BigInteger number(String digits) {
        StringBuilder plain = new StringBuilder();
        digits.codePoints().forEach(point -> plain.append(Character.digit(point, 10)));
        return new BigInteger(plain.toString());
    }

    private static byte[] canonical(Map<String, Object> metadata, String... without) {
        Map<String, Object> some = new TreeMap<>(Text::compare);
        some.putAll(metadata);
        some.keySet().removeAll(List.of(without));
        return Json.written(some).getBytes(StandardCharsets.UTF_8);
    }

    private static void checkText(String text, String name) {
        if (!Text.isWellFormed(text)) throw new CorruptArtifactError(name + ": a text in it is no text: a lone surrogate");
    }

    private static void checkFormat(Fields fields, String name) {
        if (!fields.values.containsKey("format")) {
            throw new CorruptArtifactError(name + ": tensors without a format, expected an adapter release ('pocketquery-adapter'); a bundle's own"
                + " adapter.safetensors is none, and is loaded with its bundle");
        }
        String format = fields.text("format", MOST_TEXT);
        if (!format.equals("pocketquery-adapter")) {
            throw new CorruptArtifactError(name + ": found '" + format + "', expected an adapter release ('pocketquery-adapter')");
        }
        String version = fields.text("format_version", 20);
        if (version.equals("1")) return;
        String found = name + ": format_version is " + version;
        if (version.matches("0*[2-9][0-9]*|0*1[0-9]+")) throw new UnsupportedVersionError(found + ", this release reads up to 1; update pocketquery");
        throw new CorruptArtifactError(found + ", expected '1'");
    }

    private static void checkDigest(String digest, byte[] content, Map<String, Object> metadata, String name) {
        String found = Text.sha256(content, 0, content.length);
        if (found.equals(metadata.get(digest))) return;
        throw new CorruptArtifactError(name + ": " + digest + " is '" + Text.shortened(String.valueOf(metadata.get(digest))) + "', its content gives '" + found
            + "'; it was changed. Fetch it again");
    }

    private static void checkSigned(Map<String, Object> metadata, byte[] publicKey, String name) {
        String expected = Signatures.keyId(publicKey);
        String signature = (String) metadata.get("signature");
        if (signature == null) {
            throw new SignatureError(name + ": the adapter is not signed, expected a signature by the key " + expected);
        }
        boolean isHex = signature.matches("[0-9a-fA-F]{128}");
        if (isHex && Signatures.isSigned(canonical(metadata, "signature", "content_sha256"), Text.ofHex(signature), publicKey)) return;
        throw new SignatureError(name + ": the adapter's signature was not made by the key " + expected + " (it names '"
            + Text.shortened(String.valueOf(metadata.get("signature_key_id"))) + "'); it was changed, or comes from somebody else. Fetch it from its publisher");
    }
}
