package pocketquery;

import java.io.File;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import pocketquery.PocketQueryException.ArtifactNotFoundError;
import pocketquery.PocketQueryException.CorruptArtifactError;
import pocketquery.PocketQueryException.InvalidInputError;

/**
 * A query encoder on disk, a folder or a zip: its manifest is checked when it is opened, each file as it is read.
 *
 * <pre>byte[] graph = Bundle.open(new File("bundle.zip"), publicKey).read("encoder.onnx");</pre>
 */
public final class Bundle {
    private static final int MOST_MANIFEST = 1 << 20, MOST_TEXT = 1024;
    public final String name, encoderVersion, spaceId;
    public final int dimension, maxLength;
    /** Texts that are put before a query, by name; and the one that is where none is asked for, empty for none. */
    final Map<String, String> prompts = new HashMap<>();
    final String defaultPrompt;
    /** Codes of the languages that it was made for; empty where it does not say. */
    public final List<String> languages = new ArrayList<>();
    /** That it was opened with, or null. */
    final byte[] publicKey;
    private final Source source;
    private final Fields tokenizer;
    private final String tokenizerFile;
    private final Map<String, Object[]> files = new LinkedHashMap<>();

    /**
     * The bundle at {@code place}.
     *
     * @param publicKey 32 bytes: it must be signed by its private half; null asks for no signature
     * @throws PocketQueryException.ArtifactError it is missing, damaged, of a newer version or signed by another
     */
    public static Bundle open(File place, byte[] publicKey) {
        Source source = new Source(place);
        if (source.size("manifest.json") < 0) {
            throw new ArtifactNotFoundError(place + ": found no manifest.json in it, expected a bundle (pocketquery export writes one; an index has an"
                + " index.json)");
        }
        byte[] data = source.read("manifest.json", MOST_MANIFEST + 1);
        Signatures.check(source, data, publicKey, null);
        Bundle bundle = new Bundle(source, publicKey, Fields.ofJson(data, "manifest.json", MOST_MANIFEST));
        Signatures.check(source, data, null, Fields.ofJson(data, "manifest.json", MOST_MANIFEST).textOrNull("signature_key_id", MOST_TEXT));
        return bundle;
    }

    private Bundle(Source source, byte[] publicKey, Fields fields) {
        this.source = source;
        this.publicKey = publicKey;
        fields.checkFormat("pocketquery-bundle", 1, 1, "");
        name = fields.text("name", MOST_TEXT);
        encoderVersion = fields.text("encoder_version", MOST_TEXT);
        fields.textOrNull("parent_version", MOST_TEXT);
        Fields space = fields.child("space", Integer.MAX_VALUE);
        spaceId = space.text("id", MOST_TEXT);
        dimension = (int) space.integer("dimension", 1, 1 << 14);
        Fields texts = fields.child("prompts", 64);
        for (String key : texts.values.keySet()) prompts.put(key, texts.anyText(key, 1 << 14));
        String chosen = fields.textOrNull("default_prompt_name", MOST_TEXT);
        if (chosen != null && !prompts.containsKey(chosen)) {
            throw fields.wrong("default_prompt_name", "'" + chosen + "'", "null or one of " + Text.shortened(prompts.keySet().toString()));
        }
        defaultPrompt = chosen == null ? "" : prompts.get(chosen);
        maxLength = (int) fields.integer("max_length", 3, 1 << 15);
        if (fields.values.get("languages") != null) {
            for (Object code : fields.list("languages", 512)) {
                if (!(code instanceof String) || !Filter.CODE.matcher((String) code).matches()) {
                    throw fields.wrong("languages", Fields.show(code), "codes such as \"en\", \"pt-BR\"");
                }
                languages.add((String) code);
            }
        }
        tokenizer = fields.child("tokenizer", Integer.MAX_VALUE);
        tokenizer.choice("kind", List.of("wordpiece", "sentencepiece"));
        tokenizerFile = tokenizer.text("file", 128);
        fields.child("quality", Integer.MAX_VALUE);
        fields.text("license", MOST_TEXT);
        Fields entries = fields.child("files", 64);
        for (String file : entries.values.keySet()) {
            boolean isPlain = file.matches("[^/\\\\:.][^/\\\\:]{0,127}") && file.codePoints().noneMatch(Character::isISOControl);
            if (!isPlain || file.equals("manifest.json") || file.equals("signature")) {
                throw fields.wrong("files", "the name '" + Text.shortened(file) + "'", "plain file names inside the bundle's folder");
            }
            Fields entry = entries.child(file, Integer.MAX_VALUE);
            long most = file.equals(tokenizerFile) || file.equals("adapter.safetensors") ? 1 << 26 : file.equals("golden.json") ? 1 << 24 : Integer.MAX_VALUE;
            files.put(file, new Object[] {entry.sha256("sha256"), entry.integer("bytes", 0, most)});
        }
        for (String file : List.of("encoder.onnx", "golden.json", tokenizerFile)) {
            if (!files.containsKey(file)) throw fields.wrong("files", "no entry '" + file + "'", "an entry for it");
        }
    }

    /** The bytes of a file that the manifest names, checked against its size and hash. */
    public byte[] read(String file) {
        Object[] entry = files.get(file);
        if (entry == null) throw new InvalidInputError(source.place + ": the manifest names no file '" + file + "', only " + String.join(", ", files.keySet()));
        long bytes = (Long) entry[1];
        long size = source.size(file);
        if (size < 0) throw new ArtifactNotFoundError(source.place + ": " + file + " is missing; fetch or export the bundle again");
        byte[] data = size == bytes ? source.read(file, bytes + 1) : new byte[0];
        if (size != bytes || data.length != bytes) {
            throw new CorruptArtifactError(source.place + ": " + file + " has " + size + " bytes, the manifest says " + bytes
                + "; it is truncated or was changed. Fetch or export the bundle again");
        }
        String hash = Text.sha256(data, 0, data.length);
        if (hash.equals(entry[0])) return data;
        throw new CorruptArtifactError(source.place + ": " + file + " has SHA-256 " + hash + ", the manifest says " + entry[0]
            + "; it was changed. Fetch or export the bundle again");
    }

    boolean has(String file) {
        return files.containsKey(file);
    }

    /** Of a file, as the manifest says; null where it names none. */
    String sha256(String file) {
        return files.containsKey(file) ? (String) files.get(file)[0] : null;
    }

    String place() {
        return source.place.toString();
    }

    /** Reads and checks every file that the manifest names. */
    public void checkFiles() {
        for (String file : files.keySet()) read(file);
    }

    Tokenizer tokenizer() {
        boolean isWordPiece = tokenizer.values.get("kind").equals("wordpiece");
        TreeSet<String> options = new TreeSet<>(tokenizer.values.keySet());
        options.removeAll(isWordPiece ? List.of("kind", "file") : List.of("kind", "file", "layout", "known_pieces"));
        if (!options.isEmpty()) {
            throw new InvalidInputError("found the tokenizer options " + options + ", which this kind does not have; was the bundle written by a newer version?");
        }
        if (isWordPiece) return new WordPiece(read(tokenizerFile), maxLength);
        return new SentencePiece(read(tokenizerFile), maxLength, tokenizer.values.getOrDefault("layout", "xlm-roberta"), tokenizer.values.get("known_pieces"));
    }
}
