package pocketquery;

import java.io.File;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;

/** How long searches take: {@code java pocketquery.Benchmark FOLDER}, a folder of {@code tests/java/searches.py}; measures, tests nothing. */
public final class Benchmark {
    private Benchmark() {}

    public static void main(String[] arguments) throws IOException {
        File place = new File(arguments[0]);
        List<Object> searches = Conformance.list(Conformance.read(place.toPath().resolve("expected.json")));
        ThreadMXBean clock = ManagementFactory.getThreadMXBean();
        long before = clock.getCurrentThreadCpuTime();
        long begin = System.nanoTime();
        try (Index index = Index.open(new File(place, "index"), JdbcDatabase::open, null, null)) {
            System.out.printf("%d documents of dimension %d, opened in %.0f ms, %.0f of the processor%n", index.size(), index.dimension,
                (System.nanoTime() - begin) / 1e6, (clock.getCurrentThreadCpuTime() - before) / 1e6);
            for (String mode : List.of("hybrid", "lexical", "dense")) {
                List<Double> waited = new ArrayList<>();
                List<Double> computed = new ArrayList<>(); // what others do on a busy machine is not in it
                for (int round = 0; round < 5; round++) {
                    for (Object one : searches) {
                        Map<String, Object> given = Conformance.map(one);
                        if (!mode.equals(given.get("mode"))) continue;
                        Search search = Search.text((String) given.get("query")).mode(mode).withVector(Conformance.vector(given.get("vector")));
                        long start = System.nanoTime();
                        long processor = clock.getCurrentThreadCpuTime();
                        index.search(search);
                        computed.add((clock.getCurrentThreadCpuTime() - processor) / 1e6);
                        waited.add((System.nanoTime() - start) / 1e6);
                    }
                }
                System.out.printf("%s: first %.1f ms; %s; of the processor alone %s; %d searches%n", mode, waited.get(0), shown(waited), shown(computed), waited.size());
            }
        }
    }

    private static String shown(List<Double> times) {
        List<Double> sorted = new ArrayList<>(times);
        Collections.sort(sorted);
        return String.format("p50 %.2f ms, p95 %.2f ms", sorted.get(sorted.size() / 2), sorted.get(sorted.size() * 95 / 100));
    }
}
