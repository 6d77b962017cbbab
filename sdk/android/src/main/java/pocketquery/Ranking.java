package pocketquery;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.PriorityQueue;
import java.util.TreeMap;

/** The scores of all rows for one search, by meaning, by words, or by both as one. */
final class Ranking {
    private static final int WHOLE = -1; // in the place of a language
    private final Contents contents;
    private final double leastShown;
    private final double[] scores, shown, cosines; // by which rows are ordered; of a hit; null for a search by words alone
    private final Lexical lexical; // null for one by meaning alone

    /** @param meant the query's vector; null for words alone, and where the encoder does not read the text */
    Ranking(Contents contents, Search search, Analyzer.Query query, Vectors.Query meant) {
        this.contents = contents;
        leastShown = search.minScore;
        int count = contents.isAlive.length;
        scores = new double[count];
        cosines = meant == null ? null : new double[count];
        lexical = search.mode.equals("dense") ? null : meant == null ? lexical(query) : lexicalBesideMeaning(query);
        for (int row = 0; row < count && meant != null; row++) cosines[row] = contents.vectors.scales[row] > 0 ? meant.cosine(row) : Double.NaN;
        if (lexical == null) {
            Map<Integer, Double> apart = apart(meant);
            for (int row = 0; row < count; row++) scores[row] = cosines[row] - own(apart, row);
        } else if (meant == null) {
            for (int row = 0; row < count; row++) scores[row] = lexical.scores[row] > 0 ? lexical.scores[row] : Double.NaN;
        } else fuse(meant);
        shown = scores.clone();
        double most = meant == null && lexical.most != 0 ? lexical.most : 1;
        for (int row = 0; row < count && search.mode.equals("hybrid"); row++) shown[row] = Math.min(scores[row] / most, 1);
    }

    Hit hit(int row, int others) {
        return contents.hit(row, shown[row], cosines == null ? Double.NaN : cosines[row], lexical == null ? Double.NaN : lexical.scores[row], others);
    }

    /** The k best rows, of equal ones the first; those without a number are none. */
    List<Integer> best(boolean[] allowed, int k) {
        PriorityQueue<Integer> worst = new PriorityQueue<>((a, b) -> scores[a] != scores[b] ? Double.compare(scores[a], scores[b]) : b - a);
        for (int row = 0; row < scores.length; row++) {
            if (!allowed[row] || !(shown[row] >= leastShown)) continue;
            if (worst.size() == k && scores[row] <= scores[worst.peek()]) continue;
            worst.add(row);
            if (worst.size() > k) worst.poll();
        }
        List<Integer> rows = new ArrayList<>();
        while (!worst.isEmpty()) rows.add(worst.poll());
        Collections.reverse(rows);
        return rows;
    }

    /** Where the index lacks half of the query and few rows have its common words, these say nothing: the texts are in another language. */
    private Lexical lexicalBesideMeaning(Analyzer.Query query) {
        Lexical whole = lexical(query);
        if (whole.present >= .5 * whole.most) return whole;
        List<String> common = contents.analyzer.commonTerms(query);
        if (common.isEmpty() || widestShare(common) > .15) return whole;
        Lexical said = lexical(query.without(common));
        said.most = whole.most;
        return said;
    }

    /**
     * The mean share of the index's rows that have a term. In an index of several languages that of the language in which it is largest, as far as
     * its rows are enough to say so.
     */
    private double widestShare(List<String> terms) {
        Map<Integer, Integer> rows = new HashMap<>();
        for (int language : contents.languages) if (contents.means.apart.containsKey(language)) rows.merge(language, 1, Integer::sum);
        Map<String, List<Object[]>> postings = contents.postings(new HashSet<>(terms));
        Map<Integer, Double> shares = new TreeMap<>();
        for (String term : terms) {
            Map<Integer, Integer> having = Lexical.having(postings.getOrDefault(term, List.of()), contents.languages);
            shares.merge(WHOLE, having.values().stream().mapToInt(one -> one).sum() / (double) contents.languages.length, Double::sum);
            rows.forEach((language, all) -> shares.merge(language, having.getOrDefault(language, 0) / (double) all * Means.ownPart(all), Double::sum));
        }
        return Collections.max(shares.values()) / terms.size();
    }

    private Lexical lexical(Analyzer.Query query) {
        Map<String, List<Object[]>> postings = contents.postings(query.terms.keySet());
        Vocabulary vocabulary = contents.vocabulary(query, postings.keySet());
        int[] named = contents.means.apart.isEmpty() ? null : contents.languages;
        if (vocabulary == null) return new Lexical(query, query.terms, Map.of(), postings, contents.norms, named);
        return new Lexical(query, vocabulary.weights, vocabulary.instead, contents.postings(vocabulary.weights.keySet()), contents.norms, named);
    }

    /** The one place that knows how meaning and words become one score. */
    private void fuse(Vectors.Query meant) {
        double mean = meant.cosine(contents.means.mean);
        double most = lexical.most == 0 ? 1 : lexical.most;
        double meaning = meaning(lexical.present, mean);
        Map<Integer, Double> meanings = new HashMap<>();
        Map<Integer, Double> shares = apart(meant);
        Map<Integer, double[]> words = new HashMap<>();
        for (int row = 0; row < scores.length; row++) {
            if (!shares.containsKey(contents.languages[row])) continue;
            double[] sum = words.computeIfAbsent(contents.languages[row], one -> new double[2]);
            sum[0]++;
            sum[1] += lexical.scores[row];
        }
        Means.apart(new TreeMap<>(words)).forEach((one, apart) -> {
            double present = lexical.present + Means.ownPart(words.get(one)[0]) * (lexical.own.getOrDefault(one, 0.0) - lexical.present);
            meanings.put(one, meaning(present, mean)); // few rows may lack words by chance
            shares.merge(one, apart[0], (a, b) -> a * meanings.get(one) + b / most);
        });
        for (int row = 0; row < scores.length; row++) {
            boolean isPlaced = contents.vectors.scales[row] > 0;
            double own = lexical.scores[row] / most;
            double weight = meanings.isEmpty() ? meaning : meanings.getOrDefault(contents.languages[row], meaning);
            scores[row] = isPlaced ? (cosines[row] - mean) * weight - own(shares, row) + own : own > 0 ? own : Double.NaN;
        }
    }

    private double meaning(double present, double mean) {
        double absent = lexical.most == 0 ? 1 : 1 - present / lexical.most;
        return .25 * (1 + 2 * absent) / Math.max(1 - mean, .05);
    }

    /** How far the mean cosine of each language is from that of all. */
    private Map<Integer, Double> apart(Vectors.Query meant) {
        Map<Integer, Double> made = new HashMap<>();
        contents.means.apart.forEach((language, vector) -> made.put(language, meant.cosine(vector)));
        return made;
    }

    private double own(Map<Integer, Double> shares, int row) {
        return shares.isEmpty() ? 0 : shares.getOrDefault(contents.languages[row], 0.0);
    }
}
