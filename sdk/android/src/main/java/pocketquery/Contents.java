package pocketquery;

import java.io.File;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import pocketquery.PocketQueryException.CorruptArtifactError;
import pocketquery.PocketQueryException.SpaceMismatchError;

/** What an index holds: its database and its vectors, compared with what was recorded when they were written. */
final class Contents {
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
    final String spaceId;
    final int dimension;
    final Database database;
    final Analyzer analyzer;
    final Vectors vectors;
    final Means means;
    /** Of each row: its language as a number, what its length adds to BM25's divisor, whether it was not deleted. */
    final int[] languages;
    final float[] norms;
    final boolean[] isAlive;
    final int size;
    private final File folder;
    private Map<String, Integer> frequencies; // of all terms, once a query has needed them

    Contents(File folder, Source source, Fields info, Database database) {
        this.folder = folder;
        this.database = database;
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

    /** By term the rows that have it and how often, in pieces of the index; terms that no document has are left out. */
    Map<String, List<Object[]>> postings(Set<String> terms) {
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

    /** What the index's terms add to a query; null where nothing does. */
    Vocabulary vocabulary(Analyzer.Query query, Set<String> present) {
        if (!Vocabulary.isNeeded(query, analyzer, present)) return null;
        if (frequencies == null) {
            frequencies = new HashMap<>();
            for (Object[] one : database.query("SELECT term, SUM(LENGTH(rows) / 4) FROM postings GROUP BY term")) {
                frequencies.put((String) one[0], ((Long) one[1]).intValue());
            }
        }
        return new Vocabulary(query, frequencies, analyzer);
    }

    /** A row's document as a hit. */
    Hit hit(int row, double score, double cosine, double bm25, int others) {
        List<Object[]> found = database.query("SELECT id, metadata, text FROM documents JOIN texts USING (row) WHERE row = " + row);
        if (found.isEmpty()) throw broken("no text of a document that was found", "all");
        Object[] one = found.get(0);
        return new Hit((String) one[0], score, (String) one[2], metadata(one[1]), cosine, bm25, others);
    }

    @SuppressWarnings("unchecked")
    static Map<String, Object> metadata(Object text) {
        try {
            Map<String, Object> made = (Map<String, Object>) Json.parse((String) text, 101, 1 << 16);
            if (!((String) text).contains("\\u") || Text.isWellFormed(made.toString())) return made;
            throw broken("half of a character in metadata", "whole ones");
        } catch (IllegalArgumentException | ClassCastException error) {
            throw broken("metadata that is no JSON object", "one");
        }
    }

    /** What could make SQLite read or delete another file is refused before it opens this one. */
    static void checkDatabase(Source source) {
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

    int row(Object row) {
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
