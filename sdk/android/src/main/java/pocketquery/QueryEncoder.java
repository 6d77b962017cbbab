package pocketquery;

/**
 * What makes a query's vector: {@link BundleEncoder}, or an app's own, as one session on {@code encoder_with_tokenizer.onnx}
 * (docs/native.md).
 */
public interface QueryEncoder {
    /** The id of the vector space: an index of another one is refused. */
    String spaceId();

    /** The vector of a query's text, of the index's dimension. */
    float[] encodeQuery(String text);

    /** Whether the encoder can read a text; where it cannot, a hybrid search is one by words alone. */
    default boolean reads(String text) {
        return true;
    }
}
