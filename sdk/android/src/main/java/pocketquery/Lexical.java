package pocketquery;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** BM25 of every row for one query; each operation is rounded as {@code docs/formats/search-index.md} says. */
final class Lexical {
    final float[] scores;
    /** U and p of the page. */
    double most, present;
    /** p of the terms that a document of each language has; of none where {@code languages} is null. */
    final Map<Integer, Double> own = new HashMap<>();

    Lexical(Analyzer.Query query, Map<String, Double> weights, Map<String, String> instead, Map<String, List<Object[]>> postings, float[] norms,
        int[] languages) {
        int count = norms.length;
        scores = new float[count];
        Map<String, Double> best = new LinkedHashMap<>();
        Map<String, Map<Integer, Double>> ownBest = new LinkedHashMap<>();
        for (String term : instead.values()) {
            best.put(term, 0.0);
            ownBest.put(term, new HashMap<>());
        }
        for (Map.Entry<String, Double> entry : weights.entrySet()) {
            String term = entry.getKey();
            int documents = 0;
            List<Object[]> segments = postings.getOrDefault(term, List.of());
            for (Object[] segment : segments) documents += ((byte[]) segment[2]).length / 4;
            double idf = Math.log1p((count - documents + .5) / (documents + .5));
            float weight = (float) (entry.getValue() * idf * 2.2);
            Set<Integer> having = new HashSet<>();
            boolean isOfPhrase = query.phrases.stream().anyMatch(phrase -> phrase.contains(term));
            for (Object[] segment : segments) {
                int first = ((Long) segment[1]).intValue();
                ByteBuffer rows = ByteBuffer.wrap((byte[]) segment[2]).order(ByteOrder.LITTLE_ENDIAN);
                ByteBuffer counts = ByteBuffer.wrap((byte[]) segment[3]).order(ByteOrder.LITTLE_ENDIAN);
                for (int i = 0; i < rows.capacity() / 4; i++) {
                    int row = first + rows.getInt(4 * i);
                    if (row < 0 || row >= count) throw Contents.broken("a posting of a row that is not there", "rows of the index");
                    if (languages != null) having.add(languages[row]);
                    float often = counts.getShort(2 * i) & 0xffff;
                    if (isOfPhrase) often = Math.min(often, 1);
                    scores[row] += weight * often / (often + norms[row]);
                }
            }
            if (instead.containsKey(term)) {
                best.merge(instead.get(term), (double) weight, Math::max);
                for (int one : having) ownBest.get(instead.get(term)).merge(one, (double) weight, Math::max);
            } else if (query.terms.containsKey(term) && !best.containsKey(term) && (documents > 0 || !query.beside.contains(term))) {
                most += weight;
                present += documents > 0 ? weight : 0;
                for (int one : having) own.merge(one, (double) weight, Double::sum);
            }
        }
        for (double one : best.values()) {
            most += one;
            present += one;
        }
        for (Map<Integer, Double> some : ownBest.values()) some.forEach((one, value) -> own.merge(one, value, Double::sum));
    }

    /** How many rows of each language have a term. */
    static Map<Integer, Integer> having(List<Object[]> segments, int[] languages) {
        Map<Integer, Integer> counts = new HashMap<>();
        for (Object[] segment : segments) {
            ByteBuffer rows = ByteBuffer.wrap((byte[]) segment[2]).order(ByteOrder.LITTLE_ENDIAN);
            while (rows.hasRemaining()) counts.merge(languages[((Long) segment[1]).intValue() + rows.getInt()], 1, Integer::sum);
        }
        return counts;
    }

    /** What the length of each row adds to the divisor. */
    static float[] norms(float[] lengths) {
        float mean = lengths.length == 0 ? 1 : Math.max(sum(lengths, 0, lengths.length) / lengths.length, 1);
        float factor = (float) (.75 / mean);
        float[] norms = new float[lengths.length];
        for (int row = 0; row < norms.length; row++) norms[row] = 1.2f * (.25f + factor * lengths[row]);
        return norms;
    }

    /** In the order of numpy's sums. */
    static float sum(float[] values, int from, int to) {
        int size = to - from;
        if (size > 128) {
            int half = size / 2 / 8 * 8;
            return sum(values, from, from + half) + sum(values, from + half, to);
        }
        float total = 0;
        int whole = size / 8 * 8;
        if (size >= 8) {
            float[] columns = new float[8];
            for (int i = 0; i < whole; i++) columns[i % 8] += values[from + i];
            total = columns[0] + columns[1] + (columns[2] + columns[3]) + (columns[4] + columns[5] + (columns[6] + columns[7]));
        }
        for (int i = from + whole; i < to; i++) total += values[i];
        return total;
    }
}
