package pocketquery;

import java.util.Arrays;
import pocketquery.PocketQueryException.InvalidInputError;

/**
 * The encoder of a bundle: its tokenizer, its prompts, and its graph as the app runs it.
 *
 * <pre>QueryEncoder encoder = new BundleEncoder(bundle, (ids, mask) -&gt; session.run(ids, mask));</pre>
 */
public final class BundleEncoder implements QueryEncoder {
    private final Bundle bundle;
    private final Graph graph;
    private final WordPiece tokenizer;

    /** Runs {@code encoder.onnx}: ids and a mask of ones to {@code sentence_embedding}, of unit length. */
    public interface Graph {
        float[] run(long[] ids, long[] mask);
    }

    /** Throws CorruptArtifactError: the tokenizer's file is none, or of a kind that this library does not have. */
    public BundleEncoder(Bundle bundle, Graph graph) {
        this.bundle = bundle;
        this.graph = graph;
        this.tokenizer = bundle.tokenizer();
    }

    @Override
    public String spaceId() {
        return bundle.spaceId;
    }

    @Override
    public float[] encodeQuery(String text) {
        if (!Text.isWellFormed(text)) throw new InvalidInputError("the text has half of a character (a lone surrogate)");
        String prompt = bundle.prompts.getOrDefault("query", bundle.defaultPrompt);
        long[] ids = Arrays.stream(tokenizer.encode(prompt + text)).asLongStream().toArray();
        long[] mask = new long[ids.length];
        Arrays.fill(mask, 1);
        return graph.run(ids, mask);
    }

    /** Whether at most half of the text's tokens are unknown. The rule about languages is not applied: see README.md. */
    @Override
    public boolean reads(String text) {
        int[] ids = tokenizer.inner(text);
        long unknown = Arrays.stream(ids).filter(id -> id == tokenizer.unknownId).count();
        return ids.length > 0 && 2 * unknown <= ids.length;
    }
}
