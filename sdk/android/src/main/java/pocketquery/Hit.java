package pocketquery;

import java.util.Map;

/** A document that was found. */
public final class Hit {
    public final String id;
    /** By what hits are ordered; in a hybrid search 1 at most. */
    public final double score;
    public final String text;
    public final Map<String, Object> metadata;
    /** Likeness by meaning, and the score by words; NaN where the search had no use for it or the document has no vector. */
    public final double cosine, bm25;
    /** Of a search with {@link Search#groupBy}: how many more of its group are among the hundred best. */
    public final int others;

    Hit(String id, double score, String text, Map<String, Object> metadata, double cosine, double bm25, int others) {
        this.id = id;
        this.score = score;
        this.text = text;
        this.metadata = metadata;
        this.cosine = cosine;
        this.bm25 = bm25;
        this.others = others;
    }
}
