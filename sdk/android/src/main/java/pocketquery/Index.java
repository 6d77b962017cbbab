package pocketquery;

import java.io.File;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.PriorityQueue;
import java.util.Set;
import java.util.TreeSet;
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
    private static final String NUMBER = "(?:0|[1-9][0-9]{0,17})";
    private static final String BLOBS = "rows BLOB NOT NULL, counts BLOB NOT NULL, PRIMARY KEY (term, first_row)) WITHOUT ROWID";
    private static final Map<String, String> SCHEMA = Map.of("meta", "CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID",
        "documents", "CREATE TABLE documents (row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, metadata TEXT NOT NULL)",
        "texts", "CREATE TABLE texts (row INTEGER PRIMARY KEY, text TEXT NOT NULL)",
        "tombstones", "CREATE TABLE tombstones (row INTEGER PRIMARY KEY)",
        "postings", "CREATE TABLE postings (term TEXT NOT NULL, first_row INTEGER NOT NULL, " + BLOBS,
        "segments", "CREATE TABLE segments (first_row INTEGER PRIMARY KEY, count INTEGER NOT NULL, lengths BLOB NOT NULL, languages BLOB NOT NULL,"
            + " vectors_sha256 TEXT NOT NULL)",
        "files", "CREATE TABLE files (path TEXT PRIMARY KEY, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, sha256 TEXT NOT NULL,"
            + " ids TEXT NOT NULL) WITHOUT ROWID");
    /** The vector space of the documents. */
    public final String spaceId;
    public final int dimension;
    private final File folder;
    private final QueryEncoder encoder;
    private final Database database;
    private final Analyzer analyzer;
    private final Vectors vectors;
    private final Means means;
    private final int[] languages;
    private final float[] norms;
    private final boolean[] isAlive;
    private final int size;
    private Map<String, Integer> frequencies; // of all terms, once a query has needed them

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
        checkDatabase(source);
        Database database = opener.open(new File(folder, "documents.sqlite"));
        try {
            return new Index(folder, source, info, database, encoder);
        } catch (PocketQueryException error) {
            database.close();
            throw error;
        } catch (RuntimeException error) { // of the database
            database.close();
            throw new CorruptArtifactError(folder + "/documents.sqlite is damaged or not the database of a pocketquery index (" + error.getMessage()
                + "); copy the index anew or build it again");
        }
    }

    private Index(File folder, Source source, Fields info, Database database, QueryEncoder encoder) {
        this.folder = folder;
        this.database = database;
        this.encoder = encoder;
        Fields space = info.child("space", 64);
        spaceId = space.text("id", 1024);
        dimension = (int) space.integer("dimension", 1, 1 << 16);
        checkSchema();
        String language = info.text("language", 32);
        String found = meta("language");
        String file = folder + "/documents.sqlite";
        if (!meta("space").equals(dimension + " " + spaceId)) throw new SpaceMismatchError(file, meta("space"), folder + "/index.json", spaceId);
        // "auto" is the language of an index before its first document.
        boolean isLater = !meta("generation").equals(String.valueOf(info.integer("generation", 0, Long.MAX_VALUE)));
        if (!found.equals(language) && !(language.equals("auto") && isLater)) {
            throw new CorruptArtifactError(file + " is in the language '" + found + "', index.json says '" + language
                + "'; expected the same. Files of two indexes were mixed, copy it anew");
        }
        analyzer = new Analyzer(found.equals("auto") ? "english" : found);
        String name = meta("vectors");
        if (!name.matches("vectors-" + NUMBER + "\\.u8")) {
            throw new CorruptArtifactError(file + " names the vectors " + Text.shortened(name) + ", expected vectors-N.u8; files of two indexes were mixed,"
                + " copy it anew");
        }
        List<Object[]> segments = database.query("SELECT first_row, count, lengths, vectors_sha256, languages FROM segments ORDER BY first_row");
        float[] lengths = lengths(segments);
        boolean isSealed = info.choice("state", List.of("sealed", "writing")).equals("sealed");
        checkFiles(source, info, name, isSealed);
        vectors = new Vectors(source.read(name, 64 + (long) lengths.length * (dimension + 4)), dimension, lengths.length, folder + "/" + name);
        for (Object[] one : segments) {
            int first = ((Long) one[0]).intValue();
            int count = ((Long) one[1]).intValue();
            if (!vectors.sha256(first, count).equals(one[3])) {
                throw new CorruptArtifactError(folder + "/" + name + " was changed after it was written: rows " + first + " to " + (first + count - 1)
                    + " have another SHA-256 than recorded; copy the index anew");
            }
        }
        means = new Means(value("vector_sum"), dimension);
        languages = languages(segments, lengths.length);
        norms = Lexical.norms(lengths);
        isAlive = new boolean[lengths.length];
        for (Object[] row : database.query("SELECT row FROM documents")) isAlive[row(row[0])] = true;
        int alive = 0;
        for (boolean one : isAlive) alive += one ? 1 : 0;
        size = alive;
    }

    /** How many documents it has. */
    public int size() {
        return size;
    }

    /** A document's text and metadata by its id, with a score of 0; null where there is none. */
    public Hit get(String id) {
        List<Object[]> rows = database.query("SELECT row FROM documents WHERE id = ?", id);
        return rows.isEmpty() ? null : hit(row(rows.get(0)[0]), 0, Double.NaN, Double.NaN, 0);
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
        if (search.text != null && Analyzer.asksNothing(search.text)) throw new InvalidInputError("the query is blank; expected some text");
        Filter filter = Filter.of(search.filter, search.languages);
        Analyzer.Query query = search.text == null ? null : analyzer.query(search.text, search.prefix);
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
            if (!isByWords) meant = vectors.new Query(search.vector != null ? search.vector : encoder.encodeQuery(query.plain));
        }
        boolean[] allowed = allowed(query, filter);
        return ranked(search, query, meant, allowed);
    }

    @Override
    public void close() {
        database.close();
    }

    private List<Hit> ranked(Search search, Analyzer.Query query, Vectors.Query meant, boolean[] allowed) {
        int count = isAlive.length;
        double[] scores = new double[count]; // by which rows are ordered
        double[] cosines = meant == null ? null : new double[count];
        Lexical lexical = search.mode.equals("dense") ? null : lexical(query);
        for (int row = 0; row < count && meant != null; row++) cosines[row] = vectors.scales[row] > 0 ? meant.cosine(row) : Double.NaN;
        if (lexical == null) {
            Map<Integer, Double> apart = apart(meant);
            for (int row = 0; row < count; row++) scores[row] = cosines[row] - own(apart, row);
        } else if (meant == null) {
            for (int row = 0; row < count; row++) scores[row] = lexical.scores[row] > 0 ? lexical.scores[row] : Double.NaN;
        } else {
            fuse(scores, cosines, lexical, meant);
        }
        double[] shown = scores.clone();
        double most = meant == null && lexical.most != 0 ? lexical.most : 1;
        for (int row = 0; row < count && search.mode.equals("hybrid"); row++) shown[row] = Math.min(scores[row] / most, 1);
        boolean[] wanted = allowed.clone();
        for (int row = 0; row < count; row++) wanted[row] &= shown[row] >= search.minScore;
        List<Integer> rows = new ArrayList<>();
        List<Integer> others = new ArrayList<>();
        if (search.groupBy == null) rows = best(scores, wanted, search.k + search.offset);
        else chooseOfGroups(search, depth -> best(scores, wanted, depth), rows, others);
        List<Hit> hits = new ArrayList<>();
        for (int i = search.offset; i < Math.min(rows.size(), search.offset + search.k); i++) {
            int row = rows.get(i);
            hits.add(hit(row, shown[row], cosines == null ? Double.NaN : cosines[row], lexical == null ? Double.NaN : lexical.scores[row],
                others.isEmpty() ? 0 : others.get(i)));
        }
        return hits;
    }

    /** The best row of each group, and how many more of its group are among the hundred best. */
    private void chooseOfGroups(Search search, IntFunction<List<Integer>> best, List<Integer> chosen, List<Integer> others) {
        Map<Object, Integer> firsts = new LinkedHashMap<>();
        List<Object> keys = new ArrayList<>();
        for (int depth = Math.max(100, search.offset + search.k); ; depth *= 4) {
            List<Integer> rows = best.apply(depth);
            for (int row : rows.subList(keys.size(), rows.size())) {
                List<Object> values = Filter.valuesAt(hit(row, 0, 0, 0, 0).metadata, search.groupBy);
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
            for (Hit hit : search(Search.text(text).mode("lexical").k(Math.max(isAlive.length, 1)).filter(filter))) records.add(hit.metadata);
        } else for (Object[] one : database.query("SELECT metadata FROM documents")) records.add(metadata(one[0]));
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

    /** The one place that knows how meaning and words become one score. */
    private void fuse(double[] scores, double[] cosines, Lexical lexical, Vectors.Query meant) {
        double mean = meant.cosine(means.mean);
        double most = lexical.most == 0 ? 1 : lexical.most;
        double absent = lexical.most == 0 ? 1 : 1 - lexical.present / lexical.most;
        double meaning = .25 * (1 + 2 * absent) / Math.max(1 - mean, .05);
        Map<Integer, Double> shares = apart(meant);
        Map<Integer, double[]> words = new HashMap<>();
        for (int row = 0; row < scores.length; row++) {
            if (!shares.containsKey(languages[row])) continue;
            double[] sum = words.computeIfAbsent(languages[row], one -> new double[2]);
            sum[0]++;
            sum[1] += lexical.scores[row];
        }
        Means.apart(new java.util.TreeMap<>(words)).forEach((one, apart) -> shares.merge(one, apart[0], (a, b) -> a * meaning + b / most));
        for (int row = 0; row < scores.length; row++) {
            boolean isPlaced = vectors.scales[row] > 0;
            double own = lexical.scores[row] / most;
            scores[row] = isPlaced ? (cosines[row] - mean) * meaning - own(shares, row) + own : own > 0 ? own : Double.NaN;
        }
    }

    /** How far the mean cosine of each language is from that of all. */
    private Map<Integer, Double> apart(Vectors.Query meant) {
        Map<Integer, Double> made = new HashMap<>();
        means.apart.forEach((language, vector) -> made.put(language, meant.cosine(vector)));
        return made;
    }

    private double own(Map<Integer, Double> shares, int row) {
        return shares.isEmpty() ? 0 : shares.getOrDefault(languages[row], 0.0);
    }

    /** The k best rows, of equal ones the first; those without a number are none. */
    private static List<Integer> best(double[] scores, boolean[] allowed, int k) {
        PriorityQueue<Integer> worst = new PriorityQueue<>((a, b) -> scores[a] != scores[b] ? Double.compare(scores[a], scores[b]) : b - a);
        for (int row = 0; row < scores.length; row++) {
            if (!allowed[row] || Double.isNaN(scores[row])) continue;
            if (worst.size() == k && scores[row] <= scores[worst.peek()]) continue;
            worst.add(row);
            if (worst.size() > k) worst.poll();
        }
        List<Integer> rows = new ArrayList<>();
        while (!worst.isEmpty()) rows.add(worst.poll());
        Collections.reverse(rows);
        return rows;
    }

    private Lexical lexical(Analyzer.Query query) {
        Map<String, List<Object[]>> postings = postings(query.terms.keySet());
        Vocabulary vocabulary = vocabulary(query, postings.keySet());
        if (vocabulary == null) return new Lexical(query, query.terms, Map.of(), postings, norms);
        return new Lexical(query, vocabulary.weights, vocabulary.instead, postings(vocabulary.weights.keySet()), norms);
    }

    /** What the index's terms add to a query; null where nothing does. */
    private Vocabulary vocabulary(Analyzer.Query query, Set<String> present) {
        if (!Vocabulary.isNeeded(query, analyzer, present)) return null;
        if (frequencies == null) {
            frequencies = new HashMap<>();
            for (Object[] one : database.query("SELECT term, SUM(LENGTH(rows) / 4) FROM postings GROUP BY term")) {
                frequencies.put((String) one[0], ((Long) one[1]).intValue());
            }
        }
        return new Vocabulary(query, frequencies, analyzer);
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
        Analyzer.Query asked = analyzer.query(query, typing);
        Vocabulary vocabulary = vocabulary(asked, postings(asked.terms.keySet()).keySet());
        return Snippet.of(text, asked, vocabulary == null ? asked.terms.keySet() : vocabulary.weights.keySet(), analyzer, length);
    }

    private Map<String, List<Object[]>> postings(Set<String> terms) {
        Map<String, List<Object[]>> made = new HashMap<>();
        for (String term : terms) {
            List<Object[]> rows = database.query("SELECT term, first_row, rows, counts FROM postings WHERE term = ? ORDER BY first_row", term);
            for (Object[] one : rows) {
                if (!(one[2] instanceof byte[]) || !(one[3] instanceof byte[]) || ((byte[]) one[2]).length != 2 * ((byte[]) one[3]).length) {
                    throw broken("postings that do not belong together", "a count for each row");
                }
            }
            if (!rows.isEmpty()) made.put(term, rows);
        }
        return made;
    }

    /** The rows that may be hits. */
    private boolean[] allowed(Analyzer.Query query, Filter filter) {
        boolean isDemanding = query != null && query.demands();
        if (filter == null && !isDemanding) return isAlive;
        boolean[] allowed = isAlive.clone();
        if (isDemanding) demand(query, allowed);
        if (filter == null) return allowed;
        for (Object[] one : database.query("SELECT row, metadata FROM documents")) {
            int row = row(one[0]);
            allowed[row] = allowed[row] && filter.matches(metadata(one[1]));
        }
        return allowed;
    }

    /** Keeps the rows that have what the query demands: by postings, and of phrases by the texts of those that have all words. */
    private void demand(Analyzer.Query query, boolean[] allowed) {
        keep(allowed, having(query.required), true);
        for (Set<String> one : query.excluded) keep(allowed, having(one), false);
        for (List<String> one : query.phrases) keep(allowed, havingInOrder(one, allowed), true);
        for (List<String> one : query.excludedPhrases) keep(allowed, havingInOrder(one, allowed), false);
    }

    private static void keep(boolean[] allowed, boolean[] some, boolean wanted) {
        for (int row = 0; row < allowed.length; row++) allowed[row] &= some[row] == wanted;
    }

    private boolean[] having(java.util.Collection<String> terms) {
        int[] counts = new int[isAlive.length];
        Set<String> each = new TreeSet<>(terms);
        postings(each).values().forEach(segments -> segments.forEach(segment -> {
            ByteBuffer rows = ByteBuffer.wrap((byte[]) segment[2]).order(ByteOrder.LITTLE_ENDIAN);
            while (rows.hasRemaining()) counts[row((Long) segment[1] + rows.getInt())]++;
        }));
        boolean[] all = new boolean[counts.length];
        for (int row = 0; row < all.length; row++) all[row] = counts[row] == each.size();
        return all;
    }

    private boolean[] havingInOrder(List<String> phrase, boolean[] allowed) {
        boolean[] all = having(phrase);
        for (int row = 0; row < all.length; row++) {
            if (!all[row] || !allowed[row]) continue;
            Hit one = hit(row, 0, 0, 0, 0);
            Object title = one.metadata.get("title");
            all[row] = Collections.indexOfSubList(analyzer.sequence(title instanceof String ? title + " " + one.text : one.text), phrase) >= 0;
        }
        return all;
    }

    private Hit hit(int row, double score, double cosine, double bm25, int others) {
        List<Object[]> found = database.query("SELECT id, metadata, text FROM documents JOIN texts USING (row) WHERE row = " + row);
        if (found.isEmpty()) throw broken("no text of a document that was found", "all");
        Object[] one = found.get(0);
        return new Hit((String) one[0], score, (String) one[2], metadata(one[1]), cosine, bm25, others);
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> metadata(Object text) {
        try {
            Map<String, Object> made = (Map<String, Object>) Json.parse((String) text, 101, 1 << 16);
            if (!((String) text).contains("\\u") || Text.isWellFormed(made.toString())) return made;
            throw broken("half of a character in metadata", "whole ones");
        } catch (IllegalArgumentException | ClassCastException error) {
            throw broken("metadata that is no JSON object", "one");
        }
    }

    /** What could make SQLite read or delete another file is refused before it opens this one. */
    private static void checkDatabase(Source source) {
        File file = new File(source.place, "documents.sqlite");
        byte[] header = source.read("documents.sqlite", 100);
        ByteBuffer fields = ByteBuffer.wrap(header);
        if (header.length < 100 || !new String(header, 0, 16, java.nio.charset.StandardCharsets.ISO_8859_1).equals("SQLite format 3\0")
            || fields.getInt(68) != 0x50514958 || fields.getInt(60) != 2) {
            throw new CorruptArtifactError(file + " is damaged or not the database of a pocketquery index; copy the index anew or build it again");
        }
        if (header[18] != 1 || header[19] != 1 || fields.getInt(56) != 1) {
            throw new CorruptArtifactError(file + " has a write-ahead log or another encoding than UTF-8, which we do not write; copy the index anew or"
                + " build it again");
        }
        for (String beside : new String[] {"-wal", "-journal"}) {
            if (!Files.exists(new File(file + beside).toPath(), java.nio.file.LinkOption.NOFOLLOW_LINKS)) continue;
            throw new CorruptArtifactError(file + beside + " is beside the database: a writer was killed, or it is none of this kind. Open the index once"
                + " with pocketquery in Python, or copy it anew");
        }
    }

    private void checkSchema() {
        Set<String> tables = new TreeSet<>(SCHEMA.keySet());
        for (Object[] one : database.query("SELECT type, name, tbl_name, sql FROM sqlite_master LIMIT 200")) {
            if ("table".equals(one[0]) && one[1].equals(one[2]) && one[3] != null && one[3].equals(SCHEMA.get(one[1]))) tables.remove(one[1]);
            else if (!"index".equals(one[0]) || one[3] != null || !SCHEMA.containsKey(one[2])) {
                throw new CorruptArtifactError(folder + "/documents.sqlite has the " + one[0] + " '" + one[1] + "', which we do not write; expected the tables "
                    + String.join(", ", new TreeSet<>(SCHEMA.keySet())) + ". Copy the index anew or build it again");
            }
        }
        if (tables.isEmpty()) return;
        throw new CorruptArtifactError(folder + "/documents.sqlite lacks the table '" + tables.iterator().next() + "'; copy the index anew or build it again");
    }

    private void checkFiles(Source source, Fields info, String vectorsName, boolean isSealed) {
        Fields files = info.child("files", 2);
        String generation = meta("generation");
        long sealed = info.integer("generation", 0, Long.MAX_VALUE);
        boolean isLater = generation.matches(NUMBER) && Long.parseLong(generation) > sealed;
        if (isLater && !isSealed) return; // a writer was killed after a commit; segments have hashes of their own
        if (!generation.equals(String.valueOf(sealed))) {
            throw new CorruptArtifactError(folder + "/documents.sqlite is at generation " + generation + ", but index.json was sealed at " + sealed + " and not"
                + " written since; files of two states were mixed, copy the index anew or build it again");
        }
        for (String name : List.of("documents.sqlite", vectorsName)) {
            Fields record = files.child(name, 64);
            long bytes = record.integer("bytes", 0, Integer.MAX_VALUE);
            byte[] data = source.read(name, bytes);
            if (data.length < bytes) {
                throw new CorruptArtifactError(folder + "/" + name + " has " + data.length + " bytes, expected " + bytes + ": it is truncated; copy the index"
                    + " anew or build it again");
            }
            String hash = Text.sha256(data, 0, data.length);
            if (hash.equals(record.sha256("sha256"))) continue;
            throw new CorruptArtifactError(folder + "/" + name + " was changed after it was written: its SHA-256 is " + hash + ", expected "
                + record.sha256("sha256") + "; copy the index anew or build it again");
        }
    }

    private float[] lengths(List<Object[]> segments) {
        float[] lengths = new float[0];
        for (Object[] one : segments) {
            boolean fits = one[2] instanceof byte[] && ((byte[]) one[2]).length == 4 * (Long) one[1] && (Long) one[0] == lengths.length;
            if (!fits) throw broken("a segment out of order", "one behind the other");
            ByteBuffer packed = ByteBuffer.wrap((byte[]) one[2]).order(ByteOrder.LITTLE_ENDIAN);
            int first = lengths.length;
            lengths = java.util.Arrays.copyOf(lengths, first + packed.capacity() / 4);
            for (int row = first; row < lengths.length; row++) lengths[row] = packed.getInt() & 0xffffffffL;
        }
        return lengths;
    }

    private static int[] languages(List<Object[]> segments, int count) {
        int[] languages = new int[count];
        for (Object[] one : segments) {
            int first = ((Long) one[0]).intValue();
            int rows = ((Long) one[1]).intValue();
            if (!(one[4] instanceof byte[]) || ((byte[]) one[4]).length != 2 * rows) throw broken("a segment without its languages", "one of each row");
            ByteBuffer packed = ByteBuffer.wrap((byte[]) one[4]).order(ByteOrder.LITTLE_ENDIAN);
            for (int row = first; row < first + rows; row++) languages[row] = packed.getShort() & 0xffff;
        }
        return languages;
    }

    private int row(Object row) {
        if (row instanceof Long && (Long) row >= 0 && (Long) row < norms.length) return ((Long) row).intValue();
        throw broken("the row " + row, "rows of the index");
    }

    private Object value(String key) {
        List<Object[]> rows = database.query("SELECT value FROM meta WHERE key = ?", key);
        return rows.isEmpty() ? null : rows.get(0)[0];
    }

    private String meta(String key) {
        Object value = value(key);
        if (value instanceof String) return (String) value;
        throw new CorruptArtifactError("the index's database lacks '" + key + "', or has it as another thing than a text; copy the index anew or build it again");
    }

    static CorruptArtifactError broken(String found, String expected) {
        return new CorruptArtifactError("the index's database has " + found + ", expected " + expected + "; copy the index anew or build it again");
    }
}
