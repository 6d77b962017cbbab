package pocketquery;

import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import pocketquery.PocketQueryException.CorruptArtifactError;
import pocketquery.PocketQueryException.InvalidInputError;
import pocketquery.PocketQueryException.SignatureError;

/**
 * The encoder of a bundle: its tokenizer, its prompts, its adapter, and its graph as a runtime runs it. Threads take turns.
 *
 * <pre>
 * try (BundleEncoder encoder = new BundleEncoder(bundle, OnnxGraph::new)) {
 *     float[] vector = encoder.encodeQuery("how do plants make sugar");
 * }
 * </pre>
 */
public final class BundleEncoder implements QueryEncoder, AutoCloseable {
    private static final double LEAST_COSINE = .999;
    private final Bundle bundle;
    private final Graph.Opener opener;
    private final Tokenizer tokenizer;
    private Graph graph;
    private String version;

    /** A session on a graph: ids and a mask of ones, of shape (1, length), to {@code sentence_embedding}, of unit length. */
    public interface Graph extends AutoCloseable {
        float[] run(long[] ids, long[] mask);

        @Override
        default void close() {}

        /** Makes a session of a model's bytes: {@code OnnxGraph::new}. */
        interface Opener {
            Graph open(byte[] model);
        }
    }

    /**
     * Opens the tokenizer and the graph.
     *
     * @throws CorruptArtifactError a file is none of its kind, or the runtime cannot load the graph
     */
    public BundleEncoder(Bundle bundle, Graph.Opener opener) {
        this.bundle = bundle;
        this.opener = opener;
        tokenizer = bundle.tokenizer();
        swapAdapter(null);
    }

    @Override
    public String spaceId() {
        return bundle.spaceId;
    }

    /** The encoder's version within its space: the release's, where one is in force. */
    public synchronized String version() {
        return version;
    }

    /**
     * Encodes with a release from now on, or with the bundle's own adapter (null). An older one is as good as any: {@link Release#isOlder}.
     * After an error the adapter is the one it was.
     *
     * @throws PocketQueryException.ArtifactError it is for another encoder, or was read without the key that the bundle was opened with
     */
    public void swapAdapter(Release release) {
        if (release != null) release.checkBelongs(bundle);
        if (release != null && bundle.publicKey != null && release.signedBy == null) {
            throw new SignatureError("release " + release.version + ": read without a key, expected one whose signature was checked, as the bundle's was; read"
                + " it with that key");
        }
        byte[] model = bundle.read("encoder.onnx");
        String source = bundle.place();
        String own = "adapter.safetensors";
        Map<String, Safetensors.Tensor> tensors = release != null ? release.tensors : bundle.has(own) ? new Safetensors(bundle.read(own), own).tensors : Map.of();
        String next = release != null ? release.version : bundle.encoderVersion;
        new Adapters(model, source).write(tensors, release != null, next, bundle.name);
        Graph opened;
        try {
            opened = opener.open(model);
        } catch (CorruptArtifactError error) {
            throw new CorruptArtifactError(source + ": onnxruntime cannot load encoder.onnx: " + error.getMessage());
        }
        Graph old;
        synchronized (this) { // nobody runs the old one now
            old = graph;
            graph = opened;
            version = next;
        }
        if (old != null) old.close();
    }

    @Override
    public float[] encodeQuery(String text) {
        return encode(bundle.prompts.getOrDefault("query", bundle.defaultPrompt), text);
    }

    /** The vector of a document's text, with the prompt {@code document} where the bundle has one. */
    public float[] encodeDocument(String text) {
        return encode(bundle.prompts.getOrDefault("document", bundle.defaultPrompt), text);
    }

    /** The ids of a text, special ones among them; without a prompt. */
    public List<Integer> tokenize(String text) {
        if (!Text.isWellFormed(text)) throw new InvalidInputError("the text has half of a character (a lone surrogate), expected valid Unicode");
        return Collections.unmodifiableList(tokenizer.encode(text));
    }

    synchronized float[] encode(String prompt, String text) {
        if (graph == null) throw new InvalidInputError("the encoder '" + bundle.name + "' was closed; load it again");
        tokenize(text); // refuses what is no text
        long[] ids = tokenizer.encode(prompt + text).stream().mapToLong(id -> id).toArray();
        long[] mask = new long[ids.length];
        Arrays.fill(mask, 1);
        float[] vector;
        try {
            vector = graph.run(ids, mask);
        } catch (CorruptArtifactError error) {
            throw new CorruptArtifactError(bundle.place() + ": the encoder cannot take the tokenizer's ids (largest " + Arrays.stream(ids).max().orElse(0)
                + "); they are of different vocabularies. Export the bundle again. onnxruntime says: " + error.getMessage());
        }
        if (vector.length == bundle.dimension) return vector;
        throw new CorruptArtifactError(bundle.place() + ": sentence_embedding has " + vector.length + " dimensions, the manifest says " + bundle.dimension);
    }

    /**
     * Whether the vector of a text says anything: not where a quarter of its letters are in words of scripts that the encoder's languages are
     * not written in, or more than half of its tokens are unknown, or there are none.
     */
    @Override
    public boolean reads(String text) {
        if (!bundle.languages.isEmpty() && Scripts.hasUnreadLetters(text, bundle.languages)) return false;
        List<Integer> ids = tokenizer.inner(text);
        return !ids.isEmpty() && 2 * Collections.frequency(ids, tokenizer.unknownId) <= ids.size();
    }

    /**
     * Encodes the bundle's golden texts with its own adapter: equal ids, and vectors of a cosine of .999 at least.
     *
     * @throws CorruptArtifactError this device computes something else than the exporting one did
     */
    public void verify() {
        Fields golden = Fields.ofJson(bundle.read("golden.json"), "golden.json", 1 << 24);
        List<?> texts = golden.list("texts", 10_000);
        if (texts.isEmpty()) throw golden.wrong("texts", "none", "some");
        for (int i = 0; i < texts.size(); i++) {
            Fields one = golden.item("texts", i);
            String text = one.anyText("text", 1 << 20);
            String shown = Text.shortened("'" + text + "'");
            Object[] ids = tokenize(text).stream().map(Integer::longValue).toArray();
            if (!Arrays.equals(ids, one.list("ids", 1 << 15).toArray())) {
                throw new CorruptArtifactError("golden.json: " + shown + " gives the ids " + Text.shortened(Arrays.toString(ids)) + ", expected "
                    + Text.shortened(one.list("ids", 1 << 15).toString()) + "; the tokenizer is not the one the bundle was made with");
            }
            List<?> expected = one.list("vector", 1 << 14);
            float[] vector = encode("", text);
            double product = 0;
            double squares = 0;
            for (int at = 0; at < vector.length; at++) {
                if (expected.size() != vector.length || !(expected.get(at) instanceof Number)) throw one.wrong("vector", "another", vector.length + " numbers");
                double value = ((Number) expected.get(at)).doubleValue();
                product += value * vector[at];
                squares += value * value;
            }
            double cosine = product / Math.sqrt(squares);
            if (cosine >= LEAST_COSINE) continue;
            throw new CorruptArtifactError("golden.json: the vector of " + shown + String.format(" has cosine %.4f with the golden one, expected at least ", cosine)
                + LEAST_COSINE + "; this machine computes something else than the exporting one did, or the bundle was put together wrongly");
        }
    }

    @Override
    public synchronized void close() {
        if (graph != null) graph.close();
        graph = null;
    }
}
