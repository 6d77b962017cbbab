package pocketquery;

import java.io.File;
import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.IntFunction;
import pocketquery.PocketQueryException.ArtifactNotFoundError;
import pocketquery.PocketQueryException.CorruptArtifactError;
import pocketquery.PocketQueryException.InvalidInputError;
import pocketquery.PocketQueryException.SpaceMismatchError;

/**
 * An index of documents, opened for searching. One thread at a time, or synchronized by the caller.
 *
 * <pre>
 * try (Index index = Index.open(new File("index"), JdbcDatabase::open, encoder, null)) {
 *     for (Hit hit : index.search(Search.text("how do plants make sugar").k(5))) System.out.println(hit.score + " " + hit.text);
 * }
 * </pre>
 */
public final class Index implements AutoCloseable {
    private static final int MOST_INFO = 1 << 16;
    /** The vector space of the documents. */
    public final String spaceId;
    public final int dimension;
    private final QueryEncoder encoder;
    private final Contents contents;

    /**
     * Opens the index in a folder; sizes, hashes and structure are compared with what was recorded.
     *
     * @param encoder what makes vectors of texts; null where searches bring theirs, or are by words alone
     * @param publicKey 32 bytes: the index must be signed by its private half; null asks for no signature
     * @throws PocketQueryException.ArtifactError it is missing, damaged, of another version or signed by another
     * @throws SpaceMismatchError the encoder is of another space
     */
    public static Index open(File folder, Database.Opener opener, QueryEncoder encoder, byte[] publicKey) {
        if (!folder.isDirectory()) {
            throw new ArtifactNotFoundError("there is no index at " + folder + "; build one with: pocketquery index FOLDER --output INDEX");
        }
        Source source = new Source(folder);
        if (source.size("index.json") < 0) {
            throw new ArtifactNotFoundError(folder + " is no index, it has no index.json; name an index's folder, or build one with: pocketquery index"
                + " FOLDER --output INDEX");
        }
        byte[] data = source.read("index.json", MOST_INFO + 1);
        if (publicKey != null && source.size("delta.json") >= 0) {
            throw new PocketQueryException.SignatureError(folder + ": a delta was applied to this index, and this library does not check the signature of"
                + " one; open it without a key, or fetch the whole index anew");
        }
        Signatures.check(source, data, publicKey, null);
        Fields info = Fields.ofJson(data, folder + "/index.json", MOST_INFO);
        info.checkFormat("pocketquery-index", 2, 2, "build it again: pocketquery index --documents FOLDER --output " + folder);
        Signatures.check(source, data, null, info.textOrNull("signature_key_id", 1024));
        Fields space = info.child("space", 64);
        if (encoder != null && !encoder.spaceId().equals(space.text("id", 1024))) {
            throw new SpaceMismatchError("the index " + folder, space.text("id", 1024), "the encoder", encoder.spaceId());
        }
        Contents.checkDatabase(source);
        Database database = opener.open(new File(folder, "documents.sqlite"));
        try {
            return new Index(new Contents(folder, source, info, database), encoder);
        } catch (PocketQueryException error) {
            database.close();
            throw error;
        } catch (RuntimeException error) { // of the database
            database.close();
            throw new CorruptArtifactError(folder + "/documents.sqlite is damaged or not the database of a pocketquery index (" + error.getMessage()
                + "); copy the index anew or build it again");
        }
    }

    private Index(Contents contents, QueryEncoder encoder) {
        this.contents = contents;
        this.encoder = encoder;
        spaceId = contents.spaceId;
        dimension = contents.dimension;
    }

    /** How many documents it has. */
    public int size() {
        return contents.size;
    }

    /** A document's text and metadata by its id, with a score of 0; null where there is none. */
    public Hit get(String id) {
        List<Object[]> rows = contents.database.query("SELECT row FROM documents WHERE id = ?", id);
        return rows.isEmpty() ? null : contents.hit(contents.row(rows.get(0)[0]), 0, Double.NaN, Double.NaN, 0);
    }

    /**
     * The best documents, best first; of equal ones those that came first.
     *
     * @throws InvalidInputError a blank text, a vector of another dimension, an unknown mode, a filter that is none
     */
    public List<Hit> search(Search search) {
        if (search.k < 1) throw new InvalidInputError("k is " + search.k + ", expected a whole number from 1");
        if (search.offset < 0) throw new InvalidInputError("offset is " + search.offset + ", expected a whole number from 0");
        if (Double.isNaN(search.minScore)) throw new InvalidInputError("min_score is nan, expected a number");
        if (!List.of("dense", "lexical", "hybrid").contains(String.valueOf(search.mode))) {
            throw new InvalidInputError("the mode is '" + search.mode + "', expected one of dense, lexical, hybrid");
        }
        if (search.text == null && !search.mode.equals("dense")) throw new InvalidInputError(search.mode + " search needs the query's text, found a vector only");
        if (search.text != null && !Text.isWellFormed(search.text)) throw new InvalidInputError("the query has half of a character (a lone surrogate)");
        boolean isTyped = search.prefix && search.text != null && search.vector == null; // may ask for nothing yet
        if (search.text != null && Analyzer.asksNothing(search.text) && !isTyped) throw new InvalidInputError("the query is blank or signs alone; expected a word");
        Filter filter = Filter.of(search.filter, search.languages);
        Analyzer.Query query = search.text == null ? null : contents.analyzer.query(search.text, search.prefix);
        if (isTyped && (Analyzer.asksNothing(search.text) || query.plain.isEmpty())) return List.of();
        if (query != null && query.plain.isEmpty() && (search.vector == null || search.mode.equals("lexical"))) {
            throw new InvalidInputError("the query '" + Text.shortened(search.text) + "' only says what must not be there; expected a word to look for");
        }
        Vectors.Query meant = null;
        boolean isByWords = search.mode.equals("lexical");
        if (!isByWords) {
            if (search.vector == null && encoder == null) {
                throw new InvalidInputError("a search by meaning for a text needs an encoder: Index.open(folder, database, encoder, key). Without one, pass"
                    + " a vector or use mode \"lexical\"");
            }
            isByWords = search.vector == null && search.mode.equals("hybrid") && !encoder.reads(query.plain);
            if (!isByWords) meant = contents.vectors.new Query(search.vector != null ? search.vector : encoder.encodeQuery(query.plain));
        }
        if (query != null) Selection.dropAbsent(contents, query);
        boolean[] allowed = Selection.of(contents, query, filter);
        Ranking ranking = new Ranking(contents, search, query, meant);
        List<Integer> rows = new ArrayList<>();
        List<Integer> others = new ArrayList<>();
        if (search.groupBy == null) rows = ranking.best(allowed, search.k + search.offset);
        else chooseOfGroups(search, depth -> ranking.best(allowed, depth), rows, others);
        List<Hit> hits = new ArrayList<>();
        for (int i = search.offset; i < Math.min(rows.size(), search.offset + search.k); i++) {
            hits.add(ranking.hit(rows.get(i), others.isEmpty() ? 0 : others.get(i)));
        }
        return hits;
    }

    @Override
    public void close() {
        contents.database.close();
    }

    /** The best row of each group, and how many more of its group are among the hundred best. */
    private void chooseOfGroups(Search search, IntFunction<List<Integer>> best, List<Integer> chosen, List<Integer> others) {
        Map<Object, Integer> firsts = new LinkedHashMap<>();
        List<Object> keys = new ArrayList<>();
        for (int depth = Math.max(100, search.offset + search.k); ; depth *= 4) {
            List<Integer> rows = best.apply(depth);
            for (int row : rows.subList(keys.size(), rows.size())) {
                List<Object> values = Filter.valuesAt(contents.hit(row, 0, 0, 0, 0).metadata, search.groupBy);
                if (values != null) values.replaceAll(Index::plain);
                keys.add(values == null ? (Object) row : values); // a hit without the field is a group of its own
                firsts.putIfAbsent(keys.get(keys.size() - 1), row);
            }
            if (firsts.size() >= search.offset + search.k || rows.size() < depth) break;
        }
        firsts.forEach((key, row) -> {
            chosen.add(row);
            others.add(Math.max(0, Collections.frequency(keys.subList(0, Math.min(100, keys.size())), key) - 1));
        });
    }

    /** A whole number as one, whatever it is written as. */
    private static Object plain(Object value) {
        boolean isWhole = value instanceof Double && (Double) value % 1 == 0;
        return isWhole ? Json.whole(new BigDecimal((Double) value).toBigInteger()) : value;
    }

    /**
     * The values of a field of the metadata, and how many documents have each: the most frequent first, of equally frequent
     * ones false, true, numbers, then texts, rising.
     *
     * @param text only documents that a search for its words finds, null for all
     * @param filter only documents that meet it, null for all
     */
    public Map<Object, Integer> facets(String field, String text, Map<String, ?> filter) {
        Map<Object, Integer> counts = new HashMap<>();
        Filter wanted = Filter.of(filter, null);
        List<Map<String, Object>> records = new ArrayList<>();
        if (text != null) {
            for (Hit hit : search(Search.text(text).mode("lexical").k(Math.max(contents.isAlive.length, 1)).filter(filter))) records.add(hit.metadata);
        } else for (Object[] one : contents.database.query("SELECT metadata FROM documents")) records.add(Contents.metadata(one[0]));
        for (Map<String, Object> metadata : records) {
            List<Object> values = wanted != null && !wanted.matches(metadata) ? null : Filter.valuesAt(metadata, field);
            if (values == null) continue;
            values.replaceAll(Index::plain);
            for (Object value : new HashSet<>(values)) {
                if (value instanceof String || value instanceof Number || value instanceof Boolean) counts.merge(value, 1, Integer::sum);
            }
        }
        List<Object> order = new ArrayList<>(counts.keySet());
        order.sort((a, b) -> counts.get(a).equals(counts.get(b)) ? Filter.compareValues(a, b) : counts.get(b) - counts.get(a));
        Map<Object, Integer> made = new LinkedHashMap<>();
        for (Object value : order) made.put(value, counts.get(value));
        return made;
    }

    /**
     * The passage of a hit around a query's words, of 160 characters at most; without the name and tags of its file, with which the
     * text of a folder's file begins in an index, where the words are not there alone.
     */
    public Snippet snippet(Hit hit, String query) {
        Object length = hit.metadata.get("preamble");
        int[] points = hit.text.codePoints().toArray();
        int first = length instanceof Number ? ((Number) length).intValue() : 0;
        if (first < 1 || first > points.length || points[first - 1] != '\n') return snippet(hit.text, query);
        Snippet own = snippet(new String(points, first, points.length - first), query);
        if (!own.marks.isEmpty()) return own;
        Snippet whole = snippet(hit.text, query);
        return whole.marks.isEmpty() ? own : whole;
    }

    /** The passage of a text around a query's words, of 160 characters at most: {@link #snippet(String, String, int, boolean)}. */
    public Snippet snippet(String text, String query) {
        return snippet(text, query, 160, false);
    }

    /**
     * The passage of a hit's text around the words of a query, marked; where none is there, as in a hit that was found by meaning, the
     * beginning. Words such as "the" are marked in phrases only; words of the index that stood for a mistyped one are marked, too.
     *
     * @param length the most characters, 20 at least
     * @param typing the query's last word is being typed
     */
    public Snippet snippet(String text, String query, int length, boolean typing) {
        if (!Text.isWellFormed(query)) throw new InvalidInputError("the query has half of a character (a lone surrogate)");
        Analyzer.Query asked = contents.analyzer.query(query, typing);
        Vocabulary vocabulary = contents.vocabulary(asked, contents.postings(asked.terms.keySet()).keySet());
        return Snippet.of(text, asked, vocabulary == null ? asked.terms.keySet() : vocabulary.weights.keySet(), contents.analyzer, length);
    }
}
