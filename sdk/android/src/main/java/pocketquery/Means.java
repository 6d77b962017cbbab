package pocketquery;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Map;
import java.util.TreeMap;

/** What the vectors of an index have in common, and those of each of its languages. */
final class Means {
    private static final double SUM_UNIT = 1 / 4294967296.0;
    private static final double OWN_MEAN_ROWS = 16; // that move a language's mean halfway
    /** Of all rows that have a vector, and of one more that is 0. */
    final double[] mean;
    /** By language, see {@link #apart}; empty where there are not two. */
    final Map<Integer, double[]> apart;

    /** @param stored `meta.vector_sum`: records of a language's number, how many rows it has, and the sums of their vectors */
    Means(Object stored, int dimension) {
        int size = 8 * (dimension + 2);
        if (!(stored instanceof byte[]) || ((byte[]) stored).length % size != 0) {
            throw Contents.broken("no 'vector_sum'", "records of " + (dimension + 2) + " numbers");
        }
        ByteBuffer records = ByteBuffer.wrap((byte[]) stored).order(ByteOrder.LITTLE_ENDIAN);
        double[] whole = new double[dimension + 1];
        Map<Integer, double[]> named = new TreeMap<>();
        long before = -1;
        while (records.hasRemaining()) {
            long language = records.getLong();
            if (language <= before || language > 0xffff) throw Contents.broken("languages out of order in 'vector_sum'", "rising ones");
            before = language;
            double[] sums = new double[dimension + 1];
            sums[0] = records.getLong();
            for (int i = 1; i < sums.length; i++) sums[i] = records.getLong() * SUM_UNIT;
            for (int i = 0; i < sums.length; i++) whole[i] += sums[i];
            if (language > 0) named.put((int) language, sums);
        }
        mean = new double[dimension];
        for (int i = 0; i < dimension; i++) mean[i] = whole[i + 1] / (whole[0] + 1);
        apart = apart(named);
    }

    /** How much what was counted in so many rows of a language says of it, from 0 to 1. */
    static double ownPart(double rows) {
        return rows / (rows + OWN_MEAN_ROWS);
    }

    /**
     * How far the mean of each language is from that of all of them: the less, the fewer rows it has.
     *
     * @param sums by language how many rows, and the sums of their m numbers
     * @return m numbers by language; nothing where there is one language alone
     */
    static Map<Integer, double[]> apart(Map<Integer, double[]> sums) {
        Map<Integer, double[]> made = new TreeMap<>();
        if (sums.size() < 2) return made;
        double[] whole = new double[sums.values().iterator().next().length];
        for (double[] one : sums.values()) for (int i = 0; i < whole.length; i++) whole[i] += one[i];
        sums.forEach((language, one) -> {
            double[] numbers = new double[whole.length - 1];
            for (int i = 1; i < whole.length; i++) {
                double away = one[i] / Math.max(one[0], 1) - whole[i] / Math.max(whole[0], 1);
                numbers[i - 1] = away * ownPart(one[0]);
            }
            made.put(language, numbers);
        });
        return made;
    }
}
