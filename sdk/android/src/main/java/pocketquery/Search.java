package pocketquery;

import java.util.List;
import java.util.Map;

/**
 * What is searched for: a text, a vector, or both.
 *
 * <pre>List&lt;Hit&gt; hits = index.search(Search.text("how do plants make sugar").k(5).filter(Map.of("language", "en")));</pre>
 */
public final class Search {
    final String text;
    float[] vector;
    String mode;
    int k = 10, offset;
    double minScore = Double.NEGATIVE_INFINITY;
    boolean prefix;
    Map<String, ?> filter;
    List<String> languages;
    String groupBy;

    private Search(String text, float[] vector) {
        this.text = text;
        this.vector = vector;
        mode = text == null ? "dense" : "hybrid";
    }

    /** A text as a user typed it: words, "phrases", +must, -without. */
    public static Search text(String text) {
        return new Search(text, null);
    }

    /** The vector of a query, of any length but 0. */
    public static Search vector(float[] vector) {
        return new Search(null, vector);
    }

    /** {@code "hybrid"} (a text's default), {@code "lexical"} (words alone) or {@code "dense"} (meaning alone, a vector's default). */
    public Search mode(String mode) {
        this.mode = mode;
        return this;
    }

    /** How many hits at most, 10 where nobody says. */
    public Search k(int k) {
        this.k = k;
        return this;
    }

    /** The text's vector, in place of what the index's encoder would give. */
    public Search withVector(float[] vector) {
        this.vector = vector;
        return this;
    }

    /** What the metadata of a hit must meet: {@code Map.of("year", Map.of("$gte", 2000))}. */
    public Search filter(Map<String, ?> filter) {
        this.filter = filter;
        return this;
    }

    /** Only documents whose field {@code language} is one of these codes, or a region of one: {@code List.of("de", "en")}. */
    public Search languages(List<String> codes) {
        languages = codes;
        return this;
    }

    /** How many of the best hits are passed over: the second page of ten begins at 10. */
    public Search offset(int offset) {
        this.offset = offset;
        return this;
    }

    /** The least score of a hit; a hybrid score can be compared between queries. */
    public Search minScore(double least) {
        minScore = least;
        return this;
    }

    /** Of documents that have one value of this field only the best is a hit; {@link Hit#others} counts further ones among the hundred best. */
    public Search groupBy(String field) {
        groupBy = field;
        return this;
    }

    /**
     * Whether the last word is being typed, and stands for all that begin with it. What asks for nothing yet, blanks, a quotation mark or
     * {@code -word}, finds nothing then.
     */
    public Search typing(boolean typing) {
        prefix = typing;
        return this;
    }
}
