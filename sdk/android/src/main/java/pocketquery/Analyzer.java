package pocketquery;

import java.text.Normalizer;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Function;
import pocketquery.PocketQueryException.InvalidInputError;

/** Terms of texts in one language, of documents and of queries alike. */
final class Analyzer {
    private static final String[] SCRIPTS = {
        "41-24F 1E00-1EFF:english:basque catalan czech danish dutch english esperanto estonian finnish french german hungarian"
            + " indonesian irish italian lithuanian norwegian polish portuguese romanian serbian spanish swedish turkish",
        "370-3FF 1F00-1FFF:greek:greek", "400-52F:russian:russian serbian", "530-58F:armenian:armenian", "590-5FF::yiddish",
        "600-6FF 750-77F:arabic:arabic persian", "900-97F:hindi:hindi nepali", "B80-BFF:tamil:tamil"};
    /** The common words of each language. */
    static final Map<String, Set<String>> COMMON = common();
    private static final int FEWEST_COMMON = 2; // by which a query's language is told
    private static final int MOST_CACHED = 1 << 15;
    final String language;
    private final Map<String, Stemmer> stemmers = new HashMap<>();
    private final Map<String, String> known = Collections.synchronizedMap(new HashMap<>());

    /** The terms of a chunk. Words and pairs make a document's length. */
    static final class Terms {
        List<String> words, pairs, compounds, joins, parts;

        List<String> every() {
            List<String> every = new ArrayList<>(words);
            for (List<String> some : List.of(pairs, compounds, joins, parts)) every.addAll(some);
            return every;
        }
    }

    /** What a query asks for: see {@code docs/formats/words.md}. */
    static final class Query {
        String plain, prefix = "";
        final Map<String, Double> terms = new LinkedHashMap<>();
        final Map<String, String> words = new LinkedHashMap<>();
        final Set<String> beside = new LinkedHashSet<>(), required = new LinkedHashSet<>();
        final List<Set<String>> excluded = new ArrayList<>();
        final List<List<String>> phrases = new ArrayList<>(), excludedPhrases = new ArrayList<>(), requiredPhrases = new ArrayList<>();

        /** The query without some of its terms. */
        Query without(Collection<String> some) {
            Query made = new Query();
            made.plain = plain;
            made.prefix = prefix;
            made.terms.putAll(terms);
            made.words.putAll(words);
            made.terms.keySet().removeAll(some);
            made.words.keySet().removeAll(some);
            made.beside.addAll(beside);
            made.phrases.addAll(phrases);
            return made;
        }

        boolean demands() {
            return !(required.isEmpty() && excluded.isEmpty() && phrases.isEmpty() && excludedPhrases.isEmpty());
        }
    }

    Analyzer(String language) {
        Set<String> languages = new TreeSet<>();
        for (String script : SCRIPTS) languages.addAll(List.of(script.split(":")[2].split(" ")));
        if (!languages.contains(language) && !language.equals("none")) {
            throw new InvalidInputError("language is '" + language + "', expected one of '" + String.join("', '", languages) + "', 'none'");
        }
        this.language = language;
    }

    /**
     * The terms of a query's common words in the language that has most of them, in the order of the query. None where fewer than two are; none
     * of those that a hit must have.
     */
    List<String> commonTerms(Query asked) {
        List<String> written = new ArrayList<>();
        for (String chunk : Text.chunks(asked.plain)) written.addAll(Words.cut(chunk).words);
        List<List<String>> speaking = new ArrayList<>();
        Map<String, Integer> counts = new HashMap<>();
        for (String word : written) {
            List<String> languages = new ArrayList<>();
            COMMON.forEach((language, words) -> {
                if (words.contains(folded(word))) languages.add(language);
            });
            for (String language : languages) counts.merge(language, 1, Integer::sum);
            speaking.add(languages);
        }
        int most = counts.values().stream().max(Integer::compare).orElse(0);
        Set<String> terms = new LinkedHashSet<>();
        for (int i = 0; i < written.size() && most >= FEWEST_COMMON; i++) {
            if (speaking.get(i).stream().anyMatch(language -> counts.get(language) == most)) terms.add(term(written.get(i)));
        }
        terms.retainAll(asked.terms.keySet());
        terms.removeAll(asked.required);
        for (List<String> phrase : asked.phrases) terms.removeAll(new HashSet<>(phrase));
        return new ArrayList<>(terms);
    }

    private static Map<String, Set<String>> common() {
        Map<String, Set<String>> made = new HashMap<>();
        ((Map<?, ?>) Json.parse(Text.resource("common_words.json")))
            .forEach((language, words) -> made.put((String) language, new HashSet<>(Text.chunks((String) words))));
        return made;
    }

    Terms terms(String chunk) {
        return terms(Words.cut(chunk));
    }

    private Terms terms(Words cut) {
        Terms made = new Terms();
        made.words = terms(cut.words, this::term);
        made.pairs = terms(cut.pairs, this::term);
        made.compounds = terms(cut.compounds, one -> bare(folded(one)));
        made.joins = terms(cut.joins, this::term);
        made.parts = terms(cut.parts, this::term);
        return made;
    }

    private static List<String> terms(List<String> words, Function<String, String> term) {
        List<String> made = new ArrayList<>();
        for (String word : words) {
            String one = term.apply(word);
            if (!one.isEmpty()) made.add(one);
        }
        return made;
    }

    /** The words' terms of a text, in their order. */
    List<String> sequence(String text) {
        List<String> made = new ArrayList<>();
        for (String chunk : Text.chunks(text)) made.addAll(terms(chunk).words);
        return made;
    }

    /** All terms of a text, with how often it has each. */
    Map<String, Integer> occurrences(String text) {
        Map<String, Integer> counts = new HashMap<>();
        for (String chunk : Text.chunks(text)) for (String term : terms(chunk).every()) counts.merge(term, 1, Integer::sum);
        return counts;
    }

    String lower(String word) {
        return folded(language.equals("turkish") ? word.replace('I', '\u0131') : word);
    }

    String term(String word) {
        String lower = lower(word);
        String made = known.get(lower);
        if (made != null) return made;
        int length = Text.length(lower);
        String stem = length < 3 || length > 64 || lower.chars().anyMatch(one -> one >= '0' && one <= '9') ? lower : stem(lower);
        made = bare(stem.isEmpty() ? lower : stem);
        if (known.size() >= MOST_CACHED) known.clear();
        known.put(lower, made);
        return made;
    }

    private String stem(String word) {
        int first = word.codePointAt(0);
        for (String script : SCRIPTS) {
            String[] parts = script.split(":");
            if (language.equals("none") || !isIn(parts[0], first)) continue;
            String name = List.of(parts[2].split(" ")).contains(language) ? language : parts[1];
            if (name.isEmpty()) return word;
            synchronized (stemmers) {
                return stemmers.computeIfAbsent(name, Stemmer::of).stem(word);
            }
        }
        return word;
    }

    private static boolean isIn(String ranges, int point) {
        for (String range : ranges.split(" ")) {
            int dash = range.indexOf('-');
            if (point >= Integer.parseInt(range.substring(0, dash), 16) && point <= Integer.parseInt(range.substring(dash + 1), 16)) return true;
        }
        return false;
    }

    private static String folded(String word) {
        StringBuilder made = new StringBuilder();
        word.codePoints().forEach(point -> {
            String other = point < 128 ? null : Words.TABLE.replaced("folded", point);
            made.append(other != null ? other : Text.of(point >= 'A' && point <= 'Z' ? point + 32 : point));
        });
        return made.toString();
    }

    static String bare(String word) {
        if (Text.isAscii(word)) return word;
        String parts = Normalizer.normalize(word, Normalizer.Form.NFD).replaceAll("[\\u0300-\\u036f]", "").replace('\u0131', 'i');
        return Normalizer.normalize(parts, Normalizer.Form.NFC);
    }

    /** What must be there of a chunk: the whole name, where it is one. */
    private List<String> sharpest(String chunk) {
        Terms made = terms(chunk);
        int size = made.compounds.size();
        if (size > 0) return made.compounds.subList(size - 1, size);
        return !made.joins.isEmpty() ? made.joins : !made.pairs.isEmpty() ? made.pairs : made.words;
    }

    /** A query as it is read; with {@code prefix} its last word is being typed. */
    Query query(String text, boolean prefix) {
        Query query = new Query();
        readParts(text, query);
        Set<String> whole = new LinkedHashSet<>();
        List<String> chunks = Text.chunks(query.plain);
        for (String chunk : chunks) {
            Words cut = Words.cut(chunk);
            Terms made = terms(cut);
            whole.addAll(made.words);
            whole.addAll(made.pairs);
            double own = !made.compounds.isEmpty() ? .5 : !made.joins.isEmpty() ? .75 : 1;
            double joined = chunks.size() == 1 && made.compounds.isEmpty() ? 1 : .5;
            add(query, made.words, own);
            add(query, made.pairs, own);
            add(query, made.compounds, 1);
            add(query, made.joins, joined);
            add(query, made.parts, .5);
            add(query, made.compounds.subList(0, Math.max(0, made.compounds.size() - 1)), -.5);
            for (String word : cut.words) {
                String term = term(word);
                if (Text.length(term) >= 4 && term.codePoints().allMatch(Words::isLetter)) query.words.putIfAbsent(term, lower(word));
            }
        }
        query.beside.addAll(query.terms.keySet());
        query.beside.removeAll(whole);
        List<String> all = Text.chunks(text);
        if (prefix && !text.isEmpty() && Words.hasWord(Text.of(text.codePointBefore(text.length()))) && query.plain.endsWith(all.get(all.size() - 1))) {
            List<String> last = Words.cut(all.get(all.size() - 1)).words;
            query.prefix = last.isEmpty() ? "" : bare(folded(last.get(last.size() - 1)));
        }
        return query;
    }

    private static void add(Query query, List<String> terms, double weight) {
        for (String term : terms) query.terms.merge(term, weight, Double::sum);
    }

    /** Whether a query is nothing but blanks, quotation marks and signs. */
    static boolean asksNothing(String text) {
        return text.codePoints().allMatch(c -> Text.isBlank(c) || String.join("", QUOTES).indexOf(c) >= 0 || c == '+' || c == 0xff0b || Words.TABLE.has("hyphens", c));
    }

    private static final String[] QUOTES = {"\"\u201c\u201d\u201e\u201f\u301d\u301e\u301f\uff02", "\u00ab\u00bb", "\u2039\u203a"};

    private void readParts(String text, Query query) {
        List<Object[]> parts = new ArrayList<>();
        StringBuilder plain = new StringBuilder();
        int done = 0;
        int words = 0;
        for (int at = 0; at < text.length(); ) {
            Object[] part = at == 0 || Text.isBlank(text.charAt(at - 1)) ? partAt(text, at) : null;
            if (part != null && Words.hasWord((String) part[0])) {
                parts.add(part);
                words += wordsIn(text.substring(done, at)) + ((Boolean) part[1] ? 0 : 1);
                plain.append(text, done, at).append((Boolean) part[2] ? "" : (String) part[0]);
                done = (Integer) part[3];
            }
            at = part == null ? at + 1 : (Integer) part[3];
        }
        boolean isSentence = words + wordsIn(text.substring(done)) > 7;
        query.plain = Text.stripped(isSentence ? text : plain + text.substring(done));
        for (Object[] part : isSentence ? List.<Object[]>of() : parts) {
            String body = (String) part[0];
            boolean excludes = (Boolean) part[2];
            if ((Boolean) part[1]) {
                (excludes ? query.excludedPhrases : query.phrases).add(sequence(body));
                if ((Boolean) part[4]) query.requiredPhrases.add(sequence(body));
            }
            else if (excludes) query.excluded.add(new LinkedHashSet<>(sharpest(body)));
            else query.required.addAll(sharpest(body));
        }
    }

    private static int wordsIn(String text) {
        return (int) Text.chunks(text).stream().filter(Words::hasWord).count();
    }

    /** The part that begins here: its body, whether it is a phrase, whether it excludes, where it ends, whether behind a +; null for none. */
    private static Object[] partAt(String text, int at) {
        boolean excludes = Words.TABLE.has("hyphens", text.charAt(at));
        int start = excludes || "+\uff0b".indexOf(text.charAt(at)) >= 0 ? at + 1 : at;
        for (String quotes : QUOTES) {
            if (start >= text.length() || quotes.indexOf(text.charAt(start)) < 0) continue;
            int end = start + 1;
            while (end < text.length() && quotes.indexOf(text.charAt(end)) < 0) end++;
            boolean isClosed = end < text.length() && end > start + 1;
            if (isClosed && (end + 1 == text.length() || !isOfWord(text.codePointAt(end + 1)))) {
                return new Object[] {text.substring(start + 1, end), true, excludes, end + 1, start > at && !excludes};
            }
        }
        if (start == at || !beginsWord(text, start)) return null;
        int stop = start;
        while (stop < text.length() && !Text.isBlank(text.charAt(stop))) stop++;
        return new Object[] {text.substring(start, stop), false, excludes, stop, !excludes};
    }

    private static boolean beginsWord(String text, int at) {
        if (at >= text.length()) return false;
        int first = text.codePointAt(at);
        if (isOfWord(first)) return !isDigit(first);
        int next = at + Character.charCount(first);
        if (Text.isBlank(first) || first == '+' || Words.TABLE.has("hyphens", first) || next >= text.length()) return false;
        return isOfWord(text.codePointAt(next)) && !isDigit(text.codePointAt(next));
    }

    private static boolean isDigit(int point) {
        return Words.replaced(Text.of(point)).matches("[0-9]");
    }

    private static boolean isOfWord(int point) {
        return point == '_' || Words.normal(Text.of(point)).codePoints().anyMatch(one -> Words.isLetter(one) || isDigit(one));
    }
}
