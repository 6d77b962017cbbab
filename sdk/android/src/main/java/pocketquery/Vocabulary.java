package pocketquery;

import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** What an index's terms add to a query: words that are nearly the same, longer or compound. */
final class Vocabulary {
    private static final List<String> COMPOUNDING =
        List.of("german", "dutch", "swedish", "danish", "norwegian", "finnish", "estonian", "hungarian");
    private static final String[] LINKS = {"", "s", "es", "n", "en", "er", "e"};
    private final Map<String, Integer> frequencies;
    /** The weight of each term, in order; and of compounds of a word that is nowhere, that word's term. */
    final Map<String, Double> weights;
    final Map<String, String> instead = new LinkedHashMap<>();

    /** Whether a query needs the whole vocabulary, where these are the frequencies of its own terms. */
    static boolean isNeeded(Analyzer.Query query, Analyzer analyzer, Set<String> present) {
        return !query.prefix.isEmpty() || COMPOUNDING.contains(analyzer.language) || !present.containsAll(query.words.keySet());
    }

    Vocabulary(Analyzer.Query query, Map<String, Integer> frequencies, Analyzer analyzer) {
        this.frequencies = frequencies;
        weights = new LinkedHashMap<>(query.terms);
        if (!query.prefix.isEmpty()) {
            List<String> longer = new ArrayList<>();
            for (String term : frequencies.keySet()) if (term.startsWith(query.prefix)) longer.add(term);
            if (longer.isEmpty()) longer = begun(query.prefix);
            longer.sort((a, b) -> !frequencies.get(a).equals(frequencies.get(b)) ? frequencies.get(b) - frequencies.get(a) : Text.compare(a, b));
            for (String term : longer.subList(0, Math.min(20, longer.size()))) add(term, .7);
        }
        int absent = 0;
        for (Map.Entry<String, String> word : query.words.entrySet()) {
            String term = word.getKey();
            double weight = query.terms.get(term);
            boolean isAbsent = !frequencies.containsKey(term);
            if (isAbsent) addNearest(term, Analyzer.bare(word.getValue()), weight, ++absent <= 16);
            if (!COMPOUNDING.contains(analyzer.language)) continue;
            for (String one : compounds(term, word.getValue(), analyzer)) {
                add(one, weight * (isAbsent ? .5 : .25));
                if (isAbsent && !query.terms.containsKey(one)) instead.putIfAbsent(one, term);
            }
        }
    }

    private void add(String term, double weight) {
        weights.merge(term, weight, Math::max);
    }

    private void addNearest(String term, String typed, double weight, boolean isSought) {
        int[] points = term.codePoints().toArray();
        int most = points.length >= 8 ? 2 : 1;
        long letters = letters(term);
        List<Object[]> near = new ArrayList<>();
        for (String one : isSought ? frequencies.keySet() : Set.<String>of()) {
            if (one.length() < points.length - most || one.length() > 2 * (points.length + most)) continue;
            if (Long.bitCount(letters ^ letters(one)) > 2 * most) continue; // an exchange takes one letter away and brings one
            int distance = distance(points, one.codePoints().toArray());
            if (distance > 0 && distance <= most) near.add(new Object[] {distance, -frequencies.get(one), one});
        }
        near.sort((a, b) -> !a[0].equals(b[0]) ? (Integer) a[0] - (Integer) b[0]
            : !a[1].equals(b[1]) ? (Integer) a[1] - (Integer) b[1] : Text.compare((String) a[2], (String) b[2]));
        for (Object[] one : near.subList(0, Math.min(3, near.size()))) add((String) one[2], weight * Math.pow(.5, (Integer) one[0]));
        if (near.isEmpty()) for (String one : begun(typed)) add(one, weight * .25);
    }

    /** The longest term that a word begins with, which lacks at most five letters; or none. */
    private List<String> begun(String word) {
        int length = Text.length(word);
        List<String> longest = new ArrayList<>();
        for (int size = length - 1; size >= Math.max(length - 5, 3) && longest.isEmpty(); size--) {
            String begun = word.substring(0, word.offsetByCodePoints(0, size));
            if (frequencies.containsKey(begun)) longest.add(begun);
        }
        return longest;
    }

    private Collection<String> compounds(String term, String typed, Analyzer analyzer) {
        String after = analyzer.term("bananas" + typed);
        String within = after.startsWith("bananas") ? after.substring(7) : after;
        boolean isForm = Text.length(within) >= 4 && !frequencies.containsKey(within);
        List<String> longer = new ArrayList<>();
        for (String one : frequencies.keySet()) {
            boolean has = (one.startsWith(term) || one.endsWith(term)) && Text.length(one) >= Text.length(term) + 3;
            if (has || isForm && one.endsWith(within) && Text.length(one) >= Text.length(within) + 3) longer.add(one);
        }
        longer.sort((a, b) -> Text.length(a) != Text.length(b) ? Text.length(a) - Text.length(b) : Text.compare(a, b));
        Set<String> made = new LinkedHashSet<>(longer.subList(0, Math.min(30, longer.size())));
        for (int split = 4; split <= Text.length(typed) - 4; split++) {
            int at = typed.offsetByCodePoints(0, split);
            String head = analyzer.term(typed.substring(at));
            if (Text.length(head) < 3 || !frequencies.containsKey(head)) continue;
            for (String link : LINKS) {
                String before = typed.substring(0, at);
                if (!before.endsWith(link)) continue;
                String stem = analyzer.term(before.substring(0, before.length() - link.length()));
                if (Text.length(stem) < 3 || !frequencies.containsKey(stem)) continue;
                made.add(stem);
                made.add(head);
                break;
            }
        }
        return made;
    }

    /** A bit for each character that a word has; some share one. */
    private static long letters(String word) {
        long letters = 0;
        for (int i = 0; i < word.length(); i++) if (!Character.isHighSurrogate(word.charAt(i))) letters |= 1L << word.charAt(i);
        return letters;
    }

    /** Optimal string alignment. */
    private static int distance(int[] one, int[] other) {
        int[][] rows = new int[one.length + 1][other.length + 1];
        for (int i = 0; i <= one.length; i++) {
            for (int j = 0; j <= other.length; j++) {
                if (i == 0 || j == 0) {
                    rows[i][j] = i + j;
                    continue;
                }
                int cost = Math.min(rows[i - 1][j], rows[i][j - 1]) + 1;
                cost = Math.min(cost, rows[i - 1][j - 1] + (one[i - 1] == other[j - 1] ? 0 : 1));
                boolean isSwap = i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1];
                rows[i][j] = isSwap ? Math.min(cost, rows[i - 2][j - 2] + 1) : cost;
            }
        }
        return rows[one.length][other.length];
    }
}
