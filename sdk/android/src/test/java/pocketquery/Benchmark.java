package pocketquery;

import java.io.File;
import java.io.IOException;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

/** How long searches take: {@code java pocketquery.Benchmark FOLDER}, a folder of {@code tests/java/searches.py}; measures, tests nothing. */
public final class Benchmark {
    private Benchmark() {}

    public static void main(String[] arguments) throws IOException {
        File place = new File(arguments[0]);
        List<Object> searches = Conformance.list(Conformance.read(place.toPath().resolve("expected.json")));
        long begin = System.nanoTime();
        try (Index index = Index.open(new File(place, "index"), JdbcDatabase::open, null, null)) {
            System.out.printf("%d documents of dimension %d, opened in %.0f ms%n", index.size(), index.dimension, (System.nanoTime() - begin) / 1e6);
            for (String mode : List.of("hybrid", "lexical", "dense")) {
                double[] times = new double[0];
                for (int round = 0; round < 5; round++) {
                    for (Object one : searches) {
                        Map<String, Object> given = Conformance.map(one);
                        if (!mode.equals(given.get("mode"))) continue;
                        Search search = Search.text((String) given.get("query")).mode(mode).withVector(Conformance.vector(given.get("vector")));
                        long start = System.nanoTime();
                        index.search(search);
                        times = Arrays.copyOf(times, times.length + 1);
                        times[times.length - 1] = (System.nanoTime() - start) / 1e6;
                    }
                }
                double first = times[0];
                Arrays.sort(times);
                System.out.printf("%s: first %.1f ms, p50 %.2f ms, p95 %.2f ms of %d%n", mode, first, times[times.length / 2], times[times.length * 95 / 100],
                    times.length);
            }
        }
    }
}
