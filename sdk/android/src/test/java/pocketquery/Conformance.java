package pocketquery;

import java.io.ByteArrayInputStream;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.zip.GZIPInputStream;

/** The vectors of {@code conformance/}, as far as the library reads them: {@code java pocketquery.Conformance FOLDER SCRATCH}. */
public final class Conformance {
    private static final Path MULTILINGUAL = Path.of("packages/pocketquery-multilingual/pocketquery_multilingual/bundle");
    static Path folder, scratch;
    private static int passed, failed;

    private Conformance() {}

    /** Prints what fails and a closing line; ends with 1 where something failed. */
    public static void main(String[] arguments) throws IOException {
        folder = new File(arguments[0]).toPath();
        scratch = new File(arguments[1]).toPath();
        stems();
        terms();
        queries();
        index("base");
        index("compact");
        signedSearch();
        refusedIndexes();
        inputs();
        bundles();
        wordpieces();
        sentencepieces();
        scripts();
        snippets();
        releases();
        refusedBundles();
        if (arguments.length > 1) others();
        if (arguments.length > 2) {
            Path place = new File(arguments[2]).toPath();
            searches(place);
            searches(place.resolve("languages"));
            records(place.resolve("records/index"));
            german(place.resolve("german/index"));
        }
        end();
    }

    static void end() {
        System.out.println(passed + " passed, " + failed + " failed");
        System.exit(failed == 0 ? 0 : 1);
    }

    static void check(boolean holds, String what) {
        if (holds) passed++;
        else if (++failed <= 40) System.out.println("FAILED " + Text.shortened(what) + (what.length() > 80 ? what.substring(77, Math.min(what.length(), 700)) : ""));
    }

    static Object read(Path path) throws IOException {
        byte[] data = Files.readAllBytes(path);
        try (InputStream stream = path.toString().endsWith(".gz") ? new GZIPInputStream(new ByteArrayInputStream(data)) : new ByteArrayInputStream(data)) {
            return Json.parse(new String(stream.readAllBytes(), StandardCharsets.UTF_8), 1000, 1 << 16);
        }
    }

    @SuppressWarnings("unchecked")
    static List<Object> list(Object value) {
        return (List<Object>) value;
    }

    @SuppressWarnings("unchecked")
    static Map<String, Object> map(Object value) {
        return (Map<String, Object>) value;
    }

    private static void stems() throws IOException {
        for (Map.Entry<String, Object> language : map(read(folder.resolve("words/stems.json.gz"))).entrySet()) {
            Stemmer stemmer = Stemmer.of(language.getKey());
            List<String> wrong = new ArrayList<>();
            for (Object pair : list(language.getValue())) {
                String stem = stemmer.stem((String) list(pair).get(0));
                if (!stem.equals(list(pair).get(1))) wrong.add(pair + " " + stem);
            }
            check(wrong.isEmpty(), "stems " + language.getKey() + wrong);
        }
    }

    private static void terms() throws IOException {
        Map<String, Analyzer> analyzers = new HashMap<>();
        for (Object one : list(map(read(folder.resolve("words/terms.json.gz"))).get("texts"))) {
            List<Object> row = list(one);
            Analyzer analyzer = analyzers.computeIfAbsent((String) row.get(0), Analyzer::new);
            Map<String, Long> counts = new HashMap<>();
            analyzer.occurrences((String) row.get(1)).forEach((term, count) -> counts.put(term, (long) count));
            int length = 0;
            for (String chunk : Text.chunks((String) row.get(1))) length += analyzer.terms(chunk).words.size() + analyzer.terms(chunk).pairs.size();
            check(counts.equals(row.get(2)) && length == (Long) row.get(3), "terms " + row + " " + counts + " " + length);
        }
    }

    private static void queries() throws IOException {
        Map<String, Object> file = map(read(folder.resolve("words/terms.json.gz")));
        Map<String, Integer> vocabulary = new HashMap<>();
        map(file.get("vocabulary")).forEach((term, count) -> vocabulary.put(term, ((Long) count).intValue()));
        Map<String, Analyzer> analyzers = new HashMap<>();
        for (Object one : list(file.get("queries"))) {
            List<Object> row = list(one);
            Analyzer analyzer = analyzers.computeIfAbsent((String) row.get(0), Analyzer::new);
            Analyzer.Query query = analyzer.query((String) row.get(1), (Boolean) row.get(2));
            Map<String, Object> wanted = map(row.get(3));
            Map<String, Object> found = new LinkedHashMap<>();
            found.put("plain", query.plain);
            found.put("terms", pairs(query.terms));
            found.put("words", pairs(query.words));
            found.put("beside", new ArrayList<>(new TreeSet<>(query.beside)));
            found.put("required", new ArrayList<>(new TreeSet<>(query.required)));
            List<Object> excluded = new ArrayList<>();
            query.excluded.forEach(some -> excluded.add(new ArrayList<>(new TreeSet<>(some))));
            found.put("excluded", excluded);
            found.put("phrases", query.phrases);
            found.put("excluded_phrases", query.excludedPhrases);
            found.put("required_phrases", query.requiredPhrases);
            found.put("prefix", query.prefix);
            for (String name : List.of("beside", "required")) wanted.put(name, new ArrayList<>(new TreeSet<>(list(wanted.get(name)))));
            check(found.equals(wanted), "query " + row + " " + found);
            Vocabulary added = new Vocabulary(query, vocabulary, analyzer);
            check(pairs(added.weights).equals(row.get(4)) && pairs(added.instead).equals(row.get(5)),
                "vocabulary " + row + " " + added.weights + added.instead);
        }
    }

    private static List<Object> pairs(Map<String, ?> map) {
        List<Object> pairs = new ArrayList<>();
        map.forEach((key, value) -> pairs.add(List.of(key, value)));
        return pairs;
    }

    static List<String> texts(Object value) {
        List<String> made = new ArrayList<>();
        for (Object one : list(value)) made.add((String) one);
        return made;
    }

    static float[] vector(Object value) {
        if (value == null) return null;
        float[] made = new float[list(value).size()];
        for (int i = 0; i < made.length; i++) made[i] = ((Number) list(value).get(i)).floatValue();
        return made;
    }

    private static void index(String name) throws IOException {
        Map<String, Object> expected = map(map(read(folder.resolve("index/expected.json.gz"))).get(name));
        try (Index index = Index.open(folder.resolve("index/" + name).toFile(), JdbcDatabase::open, null, null)) {
            check((long) index.size() == (Long) expected.get("size"), "size of " + name);
            for (Object one : list(expected.get("searches"))) checkSearch(index, map(one), name);
            for (Object one : list(expected.get("filters"))) {
                Object condition = written(list(one).get(0));
                try {
                    Search search = Search.vector(vectorOf(index)).k(1000);
                    search.filter = map(condition);
                    TreeSet<String> ids = new TreeSet<>();
                    for (Hit hit : index.search(search)) ids.add(hit.id);
                    check(new ArrayList<>(ids).equals(list(one).get(1)), "filter " + one + " " + ids);
                } catch (PocketQueryException.InvalidInputError | ClassCastException error) {
                    check(list(one).get(1) == null, "filter " + one + " " + error);
                }
            }
        }
    }

    static float[] vectorOf(Index index) {
        float[] vector = new float[index.dimension];
        Arrays.fill(vector, 1);
        return vector;
    }

    /** Numbers that JSON lacks. */
    private static Object written(Object value) {
        if (value instanceof List) {
            List<Object> made = new ArrayList<>();
            for (Object one : list(value)) made.add(written(one));
            return made;
        }
        if (!(value instanceof Map)) return value;
        if (map(value).containsKey("$bigint")) return new java.math.BigInteger((String) map(value).get("$bigint"));
        if (map(value).containsKey("$number")) return Double.valueOf(((String) map(value).get("$number")));
        Map<String, Object> made = new LinkedHashMap<>();
        map(value).forEach((key, one) -> made.put(key, written(one)));
        return made;
    }

    static void checkSearch(Index index, Map<String, Object> wanted, String name) {
        String text = (String) wanted.get("query");
        String mode = (String) wanted.get("mode");
        float[] vector = vector(wanted.get("vector"));
        Search search = text == null ? Search.vector(vector) : Search.text(text).withVector(vector);
        search.mode(mode).k(((Long) wanted.get("k")).intValue()).offset(((Long) wanted.getOrDefault("offset", 0L)).intValue());
        if (wanted.get("languages") != null) search.languages(texts(wanted.get("languages")));
        if (wanted.get("filter") != null) search.filter(map(written(wanted.get("filter"))));
        List<Object> hits = list(wanted.get("hits"));
        List<Hit> found = index.search(search);
        boolean isEqual = hits.size() == found.size();
        for (int i = 0; isEqual && i < hits.size(); i++) {
            double score = ((Number) list(hits.get(i)).get(1)).doubleValue();
            isEqual = list(hits.get(i)).get(0).equals(found.get(i).id) && score == found.get(i).score;
        }
        StringBuilder shown = new StringBuilder();
        for (Hit hit : found) shown.append(hit.id).append(' ').append(hit.score).append(", ");
        check(isEqual, "search of " + name + " " + mode + " " + text + " " + wanted.get("filter") + " " + hits + " found " + shown);
    }

    private static void signedSearch() throws IOException {
        Map<String, Object> keys = map(read(folder.resolve("encoder/expected.json")));
        File place = folder.resolve("search/index").toFile();
        try (Index index = Index.open(place, JdbcDatabase::open, null, Text.ofHex((String) keys.get("key")))) {
            for (Object one : list(map(read(folder.resolve("search/expected.json"))).get("searches"))) {
                if ("lexical".equals(map(one).get("mode"))) checkSearch(index, map(one), "search/index");
            }
        }
        try {
            Index.open(place, JdbcDatabase::open, null, Text.ofHex((String) keys.get("other_key"))).close();
            check(false, "an index signed by another key was opened");
        } catch (PocketQueryException.SignatureError error) {
            check(error.getMessage().contains("not made by"), error.getMessage());
        }
    }

    private static void refusedIndexes() throws IOException {
        for (Object one : list(read(folder.resolve("refused.json.gz")))) {
            Map<String, Object> refused = map(one);
            if (!refused.get("kind").equals("index")) continue;
            Path copy = changed(refused);
            String found = "nothing";
            byte[] key = refused.get("key") == null ? null : Text.ofHex((String) refused.get("key"));
            try (Index index = Index.open(copy.toFile(), JdbcDatabase::open, null, key)) {
                Search search = Search.vector(vectorOf(index)).k(1000);
                search.filter = Map.of("x", 1);
                index.search(search);
                for (Hit hit : index.search(Search.vector(vectorOf(index)).k(1000))) index.get(hit.id);
            } catch (PocketQueryException error) {
                found = error.getClass().getSimpleName();
            }
            // After a delta the library opens nothing with a key: refused, too, by another class than where the contents are read.
            boolean isDelta = ((String) refused.get("name")).startsWith("after a delta") && found.equals("SignatureError");
            check(isDelta || found.equals(refused.get("error")), "refused index '" + refused.get("name") + "': expected " + refused.get("error") + ", found " + found);
        }
    }

    /** A copy of the artefact with the changes made. */
    static Path changed(Map<String, Object> refused) throws IOException {
        Path from = folder.resolve((String) refused.get("place"));
        Path to = scratch.resolve("refused");
        if (Files.exists(to)) {
            try (var every = Files.walk(to)) {
                for (Path one : (Iterable<Path>) every.sorted(Comparator.reverseOrder())::iterator) Files.delete(one);
            }
        }
        Files.createDirectories(scratch);
        try (var every = Files.walk(from)) {
            for (Path one : (Iterable<Path>) every::iterator) Files.copy(one, one.equals(from) ? to : to.resolve(from.relativize(one).toString()));
        }
        for (Object change : list(refused.get("changes"))) {
            Map<String, Object> one = map(change);
            Path file = one.get("file").equals("") ? to : to.resolve((String) one.get("file"));
            if (Boolean.TRUE.equals(one.get("absent"))) {
                Files.deleteIfExists(file);
                continue;
            }
            byte[] data = Files.exists(file) ? Files.readAllBytes(file) : new byte[0];
            int at = ((Long) one.get("at")).intValue();
            int cut = ((Long) one.get("cut")).intValue();
            byte[] put = Base64.getDecoder().decode((String) one.get("put"));
            byte[] made = new byte[at + put.length + Math.max(0, data.length - at - cut)];
            System.arraycopy(data, 0, made, 0, at);
            System.arraycopy(put, 0, made, at, put.length);
            if (at + cut < data.length) System.arraycopy(data, at + cut, made, at + put.length, data.length - at - cut);
            Files.write(file, made);
        }
        return to;
    }

    /** What must not be accepted of a caller. */
    private static void inputs() {
        try (Index index = Index.open(folder.resolve("index/base").toFile(), JdbcDatabase::open, null, null)) {
            List<Search> wrong = List.of(Search.text(" \t\n").mode("lexical"), Search.text("a\ud800").mode("lexical"), Search.text("a").mode("fuzzy"),
                Search.text("a").mode("lexical").k(0), Search.text("a"), Search.vector(new float[3]), Search.vector(new float[index.dimension]),
                Search.text("-sugar").mode("lexical"), Search.vector(vectorOf(index)).mode("lexical"),
                Search.text("a").mode("lexical").filter(Map.of("lang", Map.of("$near", 1))));
            for (Search search : wrong) {
                try {
                    index.search(search);
                    check(false, "accepted: " + search.text + " " + search.mode);
                } catch (PocketQueryException.InvalidInputError error) {
                    check(error.getMessage().length() > 10, "an error without a message");
                }
            }
        }
    }

    private static void bundles() throws IOException {
        Map<String, Object> expected = map(read(folder.resolve("encoder/expected.json")));
        byte[] key = Text.ofHex((String) expected.get("key"));
        for (String place : List.of("encoder/tiny", "encoder/tiny.zip")) {
            Bundle bundle = Bundle.open(folder.resolve(place).toFile(), key);
            bundle.checkFiles();
            checkIds(bundle.tokenizer(), list(expected.get("texts")), list(map(expected.get("tiny")).get("ids")), "ids of tiny");
            // A query's prompt, its ids and the space of the index it searches.
            float[] vector = new float[bundle.dimension];
            vector[0] = 1;
            List<Integer> lengths = new ArrayList<>();
            BundleEncoder encoder = new BundleEncoder(bundle, model -> (ids, mask) -> {
                lengths.add(ids.length);
                return mask.length == ids.length && Arrays.stream(mask).allMatch(one -> one == 1) ? vector : null;
            });
            try (Index index = Index.open(folder.resolve("search/index").toFile(), JdbcDatabase::open, encoder, key)) {
                check(index.search(Search.text("how do plants make sugar")).size() == 10 && lengths.size() == 1, "a hybrid search through a bundle");
            }
            try {
                Index.open(folder.resolve("index/base").toFile(), JdbcDatabase::open, encoder, null).close();
                check(false, "an index of another space was opened");
            } catch (PocketQueryException.SpaceMismatchError error) {
                check(error.getMessage().contains("vectors of different spaces cannot be compared"), error.getMessage());
            }
        }
    }

    private static List<Long> idsOf(Tokenizer tokenizer, String text) {
        List<Long> ids = new ArrayList<>();
        for (int id : tokenizer.encode(text)) ids.add((long) id);
        return ids;
    }

    private static void checkIds(Tokenizer tokenizer, List<Object> texts, List<Object> ids, String what) {
        for (int i = 0; i < texts.size(); i++) {
            List<Long> found = idsOf(tokenizer, (String) texts.get(i));
            check(found.equals(ids.get(i)), what + ": " + texts.get(i) + " " + ids.get(i) + " found " + found);
        }
    }

    /** Models of sentencepiece, and the tokenizer of a real bundle with its golden texts. */
    private static void sentencepieces() throws IOException {
        for (Map.Entry<String, Object> model : map(map(read(folder.resolve("encoder/expected.json"))).get("models")).entrySet()) {
            byte[] data = Files.readAllBytes(folder.resolve("encoder/" + model.getKey() + ".model"));
            checkIds(new SentencePiece(data, 64, "xlm-roberta", null), list(map(model.getValue()).get("texts")), list(map(model.getValue()).get("ids")), model.getKey());
        }
        Bundle bundle = Bundle.open(MULTILINGUAL.toFile(), null);
        Tokenizer tokenizer = bundle.tokenizer();
        for (Object one : list(map(read(MULTILINGUAL.resolve("golden.json"))).get("texts"))) {
            checkIds(tokenizer, List.of(map(one).get("text")), List.of(map(one).get("ids")), "multilingual");
        }
    }

    private static void scripts() throws IOException {
        for (Object one : list(map(read(folder.resolve("words/scripts.json.gz"))).get("cases"))) {
            boolean found = Scripts.hasUnreadLetters((String) list(one).get(1), List.of(((String) list(one).get(0)).split(" ")));
            check(list(one).get(2).equals(found), "unread letters " + one);
        }
    }

    private static void snippets() throws IOException {
        Map<String, Analyzer> analyzers = new HashMap<>();
        for (Object one : list(map(read(folder.resolve("results.json.gz"))).get("snippets"))) {
            List<Object> row = list(one);
            Analyzer analyzer = analyzers.computeIfAbsent((String) row.get(2), Analyzer::new);
            Analyzer.Query asked = analyzer.query((String) row.get(1), false);
            Snippet found = Snippet.of((String) row.get(0), asked, asked.terms.keySet(), analyzer, ((Long) row.get(3)).intValue());
            List<Object> marks = new ArrayList<>();
            for (int[] mark : found.marks) marks.add(List.of((long) found.text.codePointCount(0, mark[0]), (long) found.text.codePointCount(0, mark[1])));
            check(found.text.equals(row.get(4)) && marks.equals(row.get(5)), "snippet " + row + " found " + found.text + " " + marks);
        }
    }

    /** Releases that fit, those that do not, and which of two is older. */
    private static void releases() throws IOException {
        byte[] key = Text.ofHex((String) map(read(folder.resolve("encoder/expected.json"))).get("key"));
        Bundle bundle = Bundle.open(folder.resolve("encoder/tiny").toFile(), null);
        Release release = Release.read(folder.resolve("encoder/release.safetensors").toFile(), bundle, key);
        check(Signatures.keyId(key).equals(release.signedBy), "who signed a release");
        List<byte[]> models = new ArrayList<>();
        BundleEncoder encoder = new BundleEncoder(bundle, model -> {
            models.add(model);
            return (ids, mask) -> new float[bundle.dimension];
        });
        check(encoder.version().equals(bundle.encoderVersion), "the version of a bundle");
        encoder.swapAdapter(release);
        check(encoder.version().equals(release.version) && !Arrays.equals(models.get(0), models.get(1)), "a release changes the model");
        encoder.swapAdapter(null);
        check(encoder.version().equals(bundle.encoderVersion) && Arrays.equals(models.get(0), models.get(2)), "the bundle's own adapter again");
        BundleEncoder strict = new BundleEncoder(Bundle.open(folder.resolve("encoder/tiny").toFile(), key), model -> (ids, mask) -> new float[0]);
        try {
            strict.swapAdapter(Release.read(folder.resolve("encoder/release.safetensors").toFile(), bundle, null));
            check(false, "a release that was read without the bundle's key");
        } catch (PocketQueryException.SignatureError error) {
            check(error.getMessage().contains("read without a key"), error.getMessage());
        }
        for (Object one : list(map(read(folder.resolve("lineage/lineages.json.gz"))).get("older"))) {
            check(list(one).get(2).equals(Release.isOlder((String) list(one).get(0), (String) list(one).get(1))), "older " + one);
        }
        for (Object one : list(read(folder.resolve("refused.json.gz")))) {
            Map<String, Object> refused = map(one);
            String kind = (String) refused.get("kind");
            if (!kind.equals("release") && !kind.equals("tokenizer")) continue;
            String found = "nothing";
            try {
                File file = changed(refused).toFile();
                if (kind.equals("tokenizer")) new SentencePiece(Files.readAllBytes(file.toPath()), 512, "plain", null);
                else Release.read(file, bundle, refused.get("key") == null ? null : Text.ofHex((String) refused.get("key")));
            } catch (PocketQueryException error) {
                found = error.getClass().getSimpleName();
            }
            check(found.equals(refused.get("error")), "refused '" + refused.get("name") + "': expected " + refused.get("error") + ", found " + found);
        }
    }

    private static void wordpieces() throws IOException {
        Map<String, Object> file = map(read(folder.resolve("tokenizer/wordpiece.json.gz")));
        for (Object one : list(file.get("cases"))) {
            Map<String, Object> changed = new LinkedHashMap<>(map(file.get("tokenizer")));
            changed.putAll(map(map(one).get("change")));
            byte[] data = Json.written(changed).getBytes(StandardCharsets.UTF_8);
            Tokenizer tokenizer = new WordPiece(data, ((Long) map(one).get("max_length")).intValue());
            checkIds(tokenizer, list(file.get("texts")), list(map(one).get("ids")), "ids, " + map(one).get("name"));
        }
    }

    /** Of bundles all but what takes the graph or golden vectors to see: {@code OnnxConformance} has these. */
    private static void refusedBundles() throws IOException {
        List<String> unread = List.of("other ids", "other vectors", "no golden text", "golden.json of", "manifest: space/dimension 17");
        for (Object one : list(read(folder.resolve("refused.json.gz")))) {
            Map<String, Object> refused = map(one);
            String name = (String) refused.get("name");
            if (!refused.get("kind").equals("bundle") || unread.stream().anyMatch(name::startsWith)) continue;
            String found = "nothing";
            try {
                Bundle bundle = Bundle.open(changed(refused).toFile(), refused.get("key") == null ? null : Text.ofHex((String) refused.get("key")));
                bundle.checkFiles();
                new BundleEncoder(bundle, model -> (ids, mask) -> new float[0]).close();
            } catch (PocketQueryException error) {
                found = error.getClass().getSimpleName();
            }
            check(found.equals(refused.get("error")), "refused bundle '" + name + "': expected " + refused.get("error") + ", found " + found);
        }
    }

    /** What no vector has: pipes, links, a version of before, a tokenizer that the library lacks. */
    private static void others() throws IOException {
        Path place = changed(Map.of("place", "index/base", "changes", List.of()));
        Path info = place.resolve("index.json");
        String text = Files.readString(info);
        Files.writeString(info, text.replace("\"format_version\": 2", "\"format_version\": 1"));
        refuses(place, "UnsupportedVersionError", "format_version is 1, this release reads 2; build it again: pocketquery index --documents FOLDER");
        String before = text.replaceAll("\"language\": \"[a-z]*\"", "\"language\": \"auto\"").replace("sealed", "writing").replaceAll("\"generation\": [0-9]*", "\"generation\": 0");
        Files.writeString(info, before); // the first documents came, and their writer was killed
        Index.open(place.toFile(), JdbcDatabase::open, null, null).close();
        Files.delete(info);
        Files.createSymbolicLink(info, Path.of("/dev/null"));
        refuses(place, "CorruptArtifactError", "expected a plain file");
        Files.delete(info);
        refuses(place, "ArtifactNotFoundError", "it has no index.json");
        Files.writeString(info, text);
        Files.delete(place.resolve("vectors-0.u8"));
        Files.createDirectory(place.resolve("vectors-0.u8"));
        refuses(place, "CorruptArtifactError", "found a folder, expected a plain file");
        refuses(place.resolve("nowhere"), "ArtifactNotFoundError", "there is no index at");
    }

    private static void refuses(Path place, String kind, String message) {
        try {
            Index.open(place.toFile(), JdbcDatabase::open, null, null).close();
            check(false, "opened, expected " + kind + ": " + message);
        } catch (PocketQueryException error) {
            check(error.getClass().getSimpleName().equals(kind) && error.getMessage().contains(message), error.getClass().getSimpleName() + " " + error.getMessage());
        }
    }

    /** Filters, groups and facets of an index of the records of results.json.gz. */
    private static void records(Path place) throws IOException {
        Map<String, Object> results = map(read(folder.resolve("results.json.gz")));
        try (Index index = Index.open(place.toFile(), JdbcDatabase::open, null, null)) {
            for (Object one : list(results.get("filters"))) {
                TreeSet<Long> found = new TreeSet<>();
                try {
                    for (Hit hit : index.search(Search.vector(vectorOf(index)).k(1000).filter(map(written(list(one).get(0)))))) found.add(Long.valueOf(hit.id));
                    check(new ArrayList<>(found).equals(list(one).get(1)), "filter " + one + " " + found);
                } catch (PocketQueryException.InvalidInputError | ClassCastException error) {
                    check(list(one).get(1) == null, "filter " + one + " " + error);
                }
            }
            for (Object one : list(results.get("groups"))) {
                Map<String, Object> wanted = map(one);
                Search search = Search.text("text").mode("lexical").k(((Long) wanted.get("k")).intValue()).offset(((Long) wanted.get("offset")).intValue());
                List<Object> found = new ArrayList<>();
                for (Hit hit : index.search(search.groupBy((String) wanted.get("group_by")))) found.add(List.of(hit.id, (long) hit.others));
                check(found.equals(wanted.get("hits")), "groups " + wanted + " " + found);
            }
            for (Object one : list(results.get("facets"))) {
                Map<String, Object> filter = map(one).get("filter") == null ? null : map(written(map(one).get("filter")));
                List<Object> found = new ArrayList<>();
                index.facets((String) map(one).get("field"), (String) map(one).get("query"), filter).forEach((value, count) -> found.add(List.of(value, (long) count)));
                List<Object> wanted = new ArrayList<>();
                for (Object pair : list(map(one).get("counts"))) {
                    Object value = written(list(pair).get(0));
                    wanted.add(List.of(value instanceof Double && (Double) value % 1 == 0 ? new java.math.BigDecimal((Double) value).toBigInteger() : value, list(pair).get(1)));
                }
                check(found.toString().equals(wanted.toString()), "facets " + one + " " + found);
            }
        }
    }

    /** An index of German texts, whose compounds words stand for. */
    private static void german(Path place) throws IOException {
        Map<String, Object> german = map(map(read(folder.resolve("results.json.gz"))).get("german"));
        try (Index index = Index.open(place.toFile(), JdbcDatabase::open, null, null)) {
            for (Object one : list(german.get("searches"))) {
                Map<String, Object> wanted = map(one);
                Search search = Search.text((String) wanted.get("query")).mode((String) wanted.get("mode")).k(5).typing((Boolean) wanted.get("prefix"));
                if (wanted.get("mode").equals("hybrid")) search.withVector(vector(list(german.get("vectors")).get(((Long) wanted.get("row")).intValue())));
                List<Object> found = new ArrayList<>();
                for (Hit hit : index.search(search)) found.add(List.of(hit.id, hit.score));
                check(found.equals(wanted.get("hits")), "german " + wanted + " " + found);
            }
            // Of a mistyped word the one that stood for it is marked.
            String marked = index.snippet("Die Umw\u00e4lzpumpe der Heizung", "Heizunk", 160, false).marked("[", "]");
            check(marked.equals("Die Umw\u00e4lzpumpe der [Heizung]"), marked);
            // What is being typed may ask for nothing yet.
            for (String nothing : List.of("", " ", "\"", "-Heizung")) {
                check(index.search(Search.text(nothing).mode("lexical").typing(true)).isEmpty(), nothing);
            }
            // A file's name and tags are shown only where nothing else has the query's words.
            for (String[] one : new String[][] {{"Wetter", "Es goss."}, {"Bergen", "\ud83c\udf27 Bergen Es goss."}}) {
                Hit hit = new Hit("a", 1, "\ud83c\udf27\nBergen\nEs goss.", Map.of("preamble", 9L), 0, 0, 0);
                check(index.snippet(hit, one[0]).text.equals(one[1]), one[0]);
            }
        }
    }

    /** Hits that Python wrote beside an index: fifty queries in three modes, with filters or languages. */
    private static void searches(Path place) throws IOException {
        try (Index index = Index.open(place.resolve("index").toFile(), JdbcDatabase::open, null, null)) {
            for (Object one : list(read(place.resolve("expected.json")))) checkSearch(index, map(one), "python");
        }
    }
}
