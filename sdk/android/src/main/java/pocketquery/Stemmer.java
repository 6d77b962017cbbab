package pocketquery;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.IntSupplier;
import java.util.function.Supplier;

/** Snowball's algorithm of one language: a program, as {@code tests/java/resources.py} writes it, turned into functions. */
final class Stemmer {
    private static final int NOTHING = 0, LOOP = 1, ROUND = 2, FALSE = 3, TRUE = 4, LABEL = 5;
    private static final int CURSOR = 1, LIMIT = 2, START = 3, BRA = 4, KET = 5;
    private final Map<?, ?> program;
    private final Map<String, Integer> places = new HashMap<>();
    private final Map<String, IntSupplier> routines = new HashMap<>();
    private Object[] values = new Object[8];

    /** The stemmer of {@code language}; null where the library has none. */
    static Stemmer of(String language) {
        byte[] program = Text.resource("stemmers/" + language + ".json");
        return program == null ? null : new Stemmer((Map<?, ?>) Json.parse(new String(program, java.nio.charset.StandardCharsets.UTF_8), 1000, 20));
    }

    private Stemmer(Map<?, ?> program) {
        this.program = program;
        for (String name : List.of("current", "cursor", "limit", "limit_backward", "bra", "ket")) places.put(name, places.size());
        ((Map<?, ?>) program.get("values")).forEach((name, value) -> set(place(name), value instanceof Long ? (Object) ((Long) value).intValue() : value));
        ((Map<?, ?>) program.get("routines")).forEach((name, body) -> routines.put((String) name, block(body)));
    }

    /** The stem of a word in lower case. */
    synchronized String stem(String word) {
        int[] points = word.codePoints().toArray();
        StringBuilder text = new StringBuilder(); // programs count code points: those beyond 16 bits are stood in for
        List<Integer> astral = new ArrayList<>();
        for (int point : points) {
            if (point > 0xffff && !astral.contains(point)) astral.add(point);
            text.append((char) (point > 0xffff ? 0xe000 + astral.indexOf(point) : point));
        }
        Object[] start = {text.toString(), 0, text.length(), 0, 0, text.length()};
        System.arraycopy(start, 0, values, 0, start.length);
        routines.get("_stem").getAsInt();
        String stem = (String) values[0];
        for (int point : astral) stem = stem.replace(String.valueOf((char) (0xe000 + astral.indexOf(point))), Text.of(point));
        return stem;
    }

    private int place(Object name) {
        Integer known = places.putIfAbsent((String) name, places.size());
        int place = known == null ? places.size() - 1 : known;
        if (place >= values.length) values = Arrays.copyOf(values, 2 * place);
        return place;
    }

    private void set(int place, Object value) {
        values[place] = value;
    }

    private int at(int place) {
        return (Integer) values[place];
    }

    private int replace(int from, int to, String text) {
        String current = (String) values[0];
        int longer = text.length() - (to - from);
        values[0] = current.substring(0, from) + text + current.substring(to);
        values[LIMIT] = at(LIMIT) + longer;
        if (at(CURSOR) >= to) values[CURSOR] = at(CURSOR) + longer;
        else if (at(CURSOR) > from) values[CURSOR] = from;
        return longer;
    }

    private boolean slice(String text) {
        replace(at(BRA), at(KET), text);
        values[KET] = at(BRA) + text.length();
        return true;
    }

    private boolean grouping(String group, boolean out, boolean back, boolean all) {
        while (true) {
            int cursor = at(CURSOR);
            if (back ? cursor <= at(START) : cursor >= at(LIMIT)) return false;
            boolean isIn = group.indexOf(((String) values[0]).charAt(back ? cursor - 1 : cursor)) >= 0;
            if (isIn == out) return all;
            values[CURSOR] = back ? cursor - 1 : cursor + 1;
            if (!all) return true;
        }
    }

    private boolean isAt(String text, boolean back) {
        int from = back ? at(CURSOR) - text.length() : at(CURSOR);
        int to = from + text.length();
        if (from < at(START) && back || to > at(LIMIT) || !((String) values[0]).startsWith(text, from)) return false;
        values[CURSOR] = back ? from : to;
        return true;
    }

    /** The meaning of the longest ending that is there and whose routine holds; 0 for none. */
    private int among(Map<String, Object[]> endings, int longest, boolean back) {
        int cursor = at(CURSOR);
        int room = back ? cursor - at(START) : at(LIMIT) - cursor;
        for (int length = Math.min(longest, room); length >= 0; length--) {
            int from = back ? cursor - length : cursor;
            Object[] ending = endings.get(((String) values[0]).substring(from, from + length));
            if (ending == null) continue;
            values[CURSOR] = back ? from : from + length;
            if (!ending[1].equals("") && routines.get(ending[1]).getAsInt() != TRUE) continue;
            values[CURSOR] = back ? from : from + length;
            return (Integer) ending[0];
        }
        return 0;
    }

    private Supplier<Object> expression(Object node) {
        if (node instanceof String) {
            int place = place(node);
            return () -> values[place];
        }
        Object constant = node instanceof Long ? (Object) ((Long) node).intValue() : node;
        if (!(node instanceof List)) return () -> constant;
        List<?> parts = (List<?>) node;
        String name = (String) parts.get(0);
        Object first = parts.size() > 1 ? parts.get(1) : 0L;
        boolean back = name.endsWith("_b");
        if (name.equals("'")) return () -> first;
        if (name.equals("call")) return () -> routines.get(first).getAsInt() == TRUE;
        if (name.contains("_grouping")) {
            String group = (String) ((Map<?, ?>) program.get("groups")).get(first);
            return () -> grouping(group, name.contains("out"), back, name.startsWith("go"));
        }
        if (name.startsWith("find_among")) {
            Map<String, Object[]> endings = new HashMap<>();
            for (Object row : (List<?>) ((Map<?, ?>) program.get("tables")).get(first)) {
                List<?> one = (List<?>) row;
                Object[] meaning = {((Long) one.get(0)).intValue(), one.get(1)};
                for (String ending : ((String) one.get(2)).split("\\|", -1)) endings.put(ending, meaning);
            }
            int longest = endings.keySet().stream().mapToInt(String::length).max().getAsInt();
            return () -> among(endings, longest, back);
        }
        Supplier<Object> left = expression(first);
        Supplier<Object> right = expression(parts.size() > 2 ? parts.get(2) : 0L);
        Supplier<Object> last = expression(parts.size() > 3 ? parts.get(3) : 0L);
        IntSupplier a = () -> (Integer) left.get();
        IntSupplier b = () -> (Integer) right.get();
        switch (name) {
            case "+": return () -> a.getAsInt() + b.getAsInt();
            case "-": return () -> a.getAsInt() - b.getAsInt();
            case "==": return () -> left.get().equals(right.get());
            case "!=": return () -> !left.get().equals(right.get());
            case "<": return () -> a.getAsInt() < b.getAsInt();
            case "<=": return () -> a.getAsInt() <= b.getAsInt();
            case ">": return () -> a.getAsInt() > b.getAsInt();
            case ">=": return () -> a.getAsInt() >= b.getAsInt();
            case "or": return () -> isTrue(left.get()) || isTrue(right.get());
            case "not": return () -> !isTrue(left.get());
            case "len": return () -> ((String) left.get()).length();
            case "at": return () -> {
                Object value = left.get();
                return value instanceof String ? String.valueOf(((String) value).charAt(b.getAsInt())) : ((List<?>) value).get(b.getAsInt());
            };
            case "eq_s": case "eq_s_b": return () -> isAt((String) left.get(), back);
            case "slice_from": return () -> slice((String) left.get());
            case "slice_del": return () -> slice("");
            case "slice_to": return () -> ((String) values[0]).substring(at(BRA), at(KET));
            case "insert": return () -> {
                int from = a.getAsInt();
                int longer = replace(from, b.getAsInt(), (String) last.get());
                for (int place : new int[] {BRA, KET}) if (from <= at(place)) values[place] = at(place) + longer;
                return true;
            };
            default: throw new IllegalStateException("a stemmer's program has the unknown word " + name);
        }
    }

    private static boolean isTrue(Object value) {
        return value instanceof Boolean ? (Boolean) value : value instanceof Integer && (Integer) value != 0;
    }

    private IntSupplier block(Object nodes) {
        IntSupplier[] statements = ((List<?>) nodes).stream().map(this::statement).toArray(IntSupplier[]::new);
        return () -> {
            for (IntSupplier one : statements) {
                int ended = one.getAsInt();
                if (ended != NOTHING) return ended;
            }
            return NOTHING;
        };
    }

    private IntSupplier statement(Object node) {
        List<?> parts = (List<?>) node;
        Object first = parts.size() > 1 ? parts.get(1) : null;
        switch ((String) parts.get(0)) {
            case "=": {
                int place = place(first);
                Supplier<Object> value = expression(parts.get(2));
                return () -> {
                    values[place] = value.get();
                    return NOTHING;
                };
            }
            case "if": {
                Supplier<Object> test = expression(first);
                IntSupplier body = block(parts.get(2));
                IntSupplier other = block(parts.get(3));
                return () -> isTrue(test.get()) ? body.getAsInt() : other.getAsInt();
            }
            case "while": {
                IntSupplier body = block(first);
                return () -> {
                    while (true) {
                        int ended = body.getAsInt();
                        if (ended == LOOP) return NOTHING;
                        if (ended > ROUND) return ended;
                    }
                };
            }
            case "try": {
                int label = LABEL + ((Long) first).intValue();
                IntSupplier body = block(parts.get(2));
                return () -> {
                    int ended = body.getAsInt();
                    return ended == label ? NOTHING : ended;
                };
            }
            case "return": {
                Supplier<Object> value = expression(first);
                return () -> isTrue(value.get()) ? TRUE : FALSE;
            }
            case "raise": return () -> LABEL + ((Long) first).intValue();
            case "break": return () -> LOOP;
            case "continue": return () -> ROUND;
            default: {
                Supplier<Object> value = expression(node);
                return () -> {
                    value.get();
                    return NOTHING;
                };
            }
        }
    }
}
