package pocketquery;

import java.io.File;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;

/** What of {@code conformance/} needs onnxruntime: {@code java pocketquery.OnnxConformance FOLDER SCRATCH BUNDLE...}. */
public final class OnnxConformance {
    private OnnxConformance() {}

    public static void main(String[] arguments) throws IOException {
        Path folder = Path.of(arguments[0]);
        Conformance.folder = folder;
        Conformance.scratch = Path.of(arguments[1]);
        Map<String, Object> expected = Conformance.map(Conformance.read(folder.resolve("encoder/expected.json")));
        byte[] key = Text.ofHex((String) expected.get("key"));
        for (String place : List.of("encoder/tiny", "encoder/tiny.zip")) {
            Bundle bundle = Bundle.open(folder.resolve(place).toFile(), key);
            try (BundleEncoder encoder = new BundleEncoder(bundle, OnnxGraph::new)) {
                vectors(encoder, expected, "tiny");
                encoder.verify();
                encoder.swapAdapter(Release.read(folder.resolve("encoder/release.safetensors").toFile(), bundle, null));
                vectors(encoder, expected, "swapped");
                encoder.swapAdapter(null);
                vectors(encoder, expected, "tiny");
                searches(encoder, folder, key);
            }
        }
        for (int i = 2; i < arguments.length; i++) golden(new File(arguments[i]));
        refused(folder);
        Conformance.end();
    }

    private static void vectors(BundleEncoder encoder, Map<String, Object> expected, String name) {
        List<Object> texts = Conformance.list(expected.get("texts"));
        Map<String, Object> of = Conformance.map(expected.get(name));
        for (int i = 0; i < texts.size(); i++) {
            double cosine = product(encoder.encode("", (String) texts.get(i)), Conformance.vector(Conformance.list(of.get("vectors")).get(i)));
            Conformance.check(cosine > .9999, name + ": a cosine of " + cosine + " for " + texts.get(i));
        }
    }

    private static double product(float[] one, float[] other) {
        double sum = 0;
        for (int i = 0; i < one.length; i++) sum += (double) one[i] * other[i];
        return sum;
    }

    /** Text queries, encoded here: other processors' last bits differ, and hits whose scores are that close may change places. */
    private static void searches(BundleEncoder encoder, Path folder, byte[] key) throws IOException {
        try (Index index = Index.open(folder.resolve("search/index").toFile(), JdbcDatabase::open, encoder, key)) {
            for (Object one : Conformance.list(Conformance.map(Conformance.read(folder.resolve("search/expected.json"))).get("searches"))) {
                Map<String, Object> wanted = Conformance.map(one);
                Search search = Search.text((String) wanted.get("query")).mode((String) wanted.get("mode")).k(((Long) wanted.get("k")).intValue());
                if (wanted.get("filter") != null) search.filter(Conformance.map(wanted.get("filter")));
                List<Hit> hits = index.search(search);
                List<Object> expected = Conformance.list(wanted.get("hits"));
                boolean isNear = hits.size() == expected.size();
                for (int i = 0; isNear && i < hits.size(); i++) {
                    isNear = Math.abs(hits.get(i).score - ((Number) Conformance.list(expected.get(i)).get(1)).doubleValue()) < 1e-5;
                }
                Conformance.check(isNear, "a text query: " + one);
            }
        }
    }

    private static void golden(File place) {
        try (BundleEncoder encoder = new BundleEncoder(Bundle.open(place, null), OnnxGraph::new)) {
            encoder.verify();
            long begin = System.nanoTime();
            for (int i = 0; i < 100; i++) encoder.encodeQuery("how do plants make sugar");
            System.out.printf("%s: verified; a query of five words in %.2f ms%n", place, (System.nanoTime() - begin) / 1e8);
            Conformance.check(true, "");
        } catch (PocketQueryException error) {
            Conformance.check(false, place + ": " + error.getMessage());
        }
    }

    private static void refused(Path folder) throws IOException {
        for (Object one : Conformance.list(Conformance.read(folder.resolve("refused.json.gz")))) {
            Map<String, Object> refused = Conformance.map(one);
            if (!refused.get("kind").equals("bundle")) continue;
            String found = "nothing";
            Bundle bundle;
            try {
                bundle = Bundle.open(Conformance.changed(refused).toFile(), refused.get("key") == null ? null : Text.ofHex((String) refused.get("key")));
                bundle.checkFiles();
                try (BundleEncoder encoder = new BundleEncoder(bundle, OnnxGraph::new)) {
                    encoder.verify();
                }
            } catch (PocketQueryException error) {
                found = error.getClass().getSimpleName();
            }
            Conformance.check(found.equals(refused.get("error")), "refused bundle '" + refused.get("name") + "': expected " + refused.get("error") + ", found " + found);
        }
    }
}
