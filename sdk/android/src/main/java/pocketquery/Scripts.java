package pocketquery;

import java.text.Normalizer;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/** Which scripts a text is in, and whether languages are written in them: Python's {@code languages/scripts.py}, and its table. */
final class Scripts {
    private static final int UNREAD_SHARE = 4; // of a text's letters one in so many
    private static final int MOST_READ = 1000; // characters of a text
    private static final TreeMap<Integer, String> NAMES = new TreeMap<>(); // by where a script begins; "" where it ends
    private static final Map<?, ?> TABLE = (Map<?, ?>) Json.parse(Text.resource("scripts.json"));

    static {
        for (String row : ((String) TABLE.get("ranges")).split("\n")) {
            String[] parts = row.split(" ");
            for (int i = 1; i < parts.length; i++) {
                NAMES.put(Integer.parseInt(parts[i].split("-")[0], 16), parts[0]);
                NAMES.putIfAbsent(Integer.parseInt(parts[i].split("-")[1], 16) + 1, "");
            }
        }
    }

    private Scripts() {}

    /** Whether a quarter of a text's letters are in words that no language of these, codes such as "pt-BR", writes. */
    static boolean hasUnreadLetters(String text, List<String> languages) {
        Set<String> codes = new HashSet<>();
        for (String code : languages) codes.add(code.toLowerCase(java.util.Locale.ROOT).split("[-_]")[0].replaceFirst("^n[bn]$", "no"));
        Set<String> scripts = new HashSet<>(Set.of("Latn"));
        for (String row : ((String) TABLE.get("written")).split("\n")) {
            List<String> parts = List.of(row.split(" "));
            if (parts.subList(1, parts.size()).stream().anyMatch(codes::contains)) scripts.add(parts.get(0));
        }
        String begin = text.substring(0, text.offsetByCodePoints(0, Math.min(MOST_READ, Text.length(text))));
        int letters = 0;
        int unread = 0;
        for (String word : Text.chunks(Normalizer.normalize(begin, Normalizer.Form.NFC))) {
            int count = 0;
            int strange = 0;
            boolean isVietnamese = false;
            for (int point : word.codePoints().toArray()) {
                Map.Entry<Integer, String> script = NAMES.floorEntry(point);
                if (script == null || script.getValue().isEmpty()) continue;
                count++;
                if (!scripts.contains(script.getValue())) strange++;
                isVietnamese |= script.getValue().equals("Viet");
            }
            letters += count;
            if (2 * strange > count || isVietnamese && !scripts.contains("Viet")) unread += count;
        }
        return letters > 0 && UNREAD_SHARE * unread >= letters;
    }
}
