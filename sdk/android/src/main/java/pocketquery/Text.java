package pocketquery;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.text.Normalizer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Characters by the shared tables, and what else texts and bytes need in several places. */
final class Text {
    private Text() {}

    static String shortened(String text) {
        return text.length() <= 80 ? text : text.substring(0, 77) + "...";
    }

    static boolean isWellFormed(String text) {
        return text.codePoints().noneMatch(point -> point >= 0xd800 && point <= 0xdfff);
    }

    /** In the order of code points, which is not that of UTF-16. */
    static int compare(String left, String right) {
        for (int i = 0; i < Math.min(left.length(), right.length()); i++) {
            char a = left.charAt(i);
            char b = right.charAt(i);
            if (a != b) return Character.isSurrogate(a) != Character.isSurrogate(b) ? (Character.isSurrogate(a) ? 1 : -1) : a - b;
        }
        return left.length() - right.length();
    }

    static String normal(String text, Normalizer.Form form) {
        return isAscii(text) ? text : Normalizer.normalize(text, form);
    }

    static boolean isAscii(String text) {
        for (int i = 0; i < text.length(); i++) if (text.charAt(i) > 127) return false;
        return true;
    }

    static int length(String text) {
        return text.codePointCount(0, text.length());
    }

    static String of(int point) {
        return new String(Character.toChars(point));
    }

    static boolean isBlank(int c) {
        return c >= 9 && c <= 13 || c >= 0x1c && c <= 32 || c == 0x85 || c == 0xa0 || c == 0x1680 || c >= 0x2000 && c <= 0x200a
            || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
    }

    /** The text between blanks. */
    static List<String> chunks(String text) {
        List<String> chunks = new ArrayList<>();
        for (int at = 0, start = 0; at <= text.length(); at++) {
            if (at < text.length() && !isBlank(text.charAt(at))) continue;
            if (at > start) chunks.add(text.substring(start, at));
            start = at + 1;
        }
        return chunks;
    }

    static String stripped(String text) {
        int start = 0;
        int stop = text.length();
        while (start < stop && isBlank(text.charAt(start))) start++;
        while (stop > start && isBlank(text.charAt(stop - 1))) stop--;
        return text.substring(start, stop);
    }

    static String hex(byte[] data) {
        StringBuilder made = new StringBuilder();
        for (byte one : data) made.append(String.format("%02x", one));
        return made.toString();
    }

    static byte[] ofHex(String hex) {
        byte[] made = new byte[hex.length() / 2];
        for (int i = 0; i < made.length; i++) made[i] = (byte) Integer.parseInt(hex.substring(2 * i, 2 * i + 2), 16);
        return made;
    }

    static String sha256(byte[] data, int from, int length) {
        try {
            MessageDigest digest = MessageDigest.getInstance("SHA-256");
            digest.update(data, from, length);
            return hex(digest.digest());
        } catch (NoSuchAlgorithmException error) {
            throw new IllegalStateException(error);
        }
    }

    /** A file that is part of the library. */
    static byte[] resource(String name) {
        try (InputStream stream = Text.class.getResourceAsStream("/pocketquery/" + name)) {
            if (stream == null) return null;
            ByteArrayOutputStream made = new ByteArrayOutputStream();
            byte[] buffer = new byte[1 << 16];
            for (int count = stream.read(buffer); count >= 0; count = stream.read(buffer)) made.write(buffer, 0, count);
            return made.toByteArray();
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    /** A table of {@code conformance/tables}: sets of characters, and characters with what replaces them. */
    static final class Table {
        private final Map<String, int[]> sets = new HashMap<>();
        private final Map<String, Map<Integer, String>> pairs = new HashMap<>();

        Table(String name) {
            ((Map<?, ?>) Json.parse(resource(name))).forEach((key, value) -> read((String) key, (String) value));
        }

        boolean has(String set, int point) {
            int place = Arrays.binarySearch(sets.get(set), point);
            return (place >= 0 ? place : -place - 2) % 2 == 0;
        }

        String replaced(String name, int point) {
            return pairs.get(name).get(point);
        }

        private void read(String key, String value) {
            if (key.equals("unicode")) return;
            String[] items = value.split(" ");
            if (!value.contains(">")) {
                int[] bounds = new int[2 * items.length];
                for (int i = 0; i < items.length; i++) {
                    String[] span = items[i].split("-");
                    bounds[2 * i] = Integer.parseInt(span[0], 16);
                    bounds[2 * i + 1] = Integer.parseInt(span[span.length - 1], 16) + 1;
                }
                sets.put(key, joined(bounds));
                return;
            }
            Map<Integer, String> made = new HashMap<>();
            for (String item : items) {
                String[] pair = item.split(">");
                StringBuilder other = new StringBuilder();
                for (String point : pair[1].split("\\+")) other.appendCodePoint(Integer.parseInt(point, 16));
                made.put(Integer.parseInt(pair[0], 16), other.toString());
            }
            pairs.put(key, made);
        }

        /** Without bounds between ranges that touch, so that every bound is there once. */
        private static int[] joined(int[] bounds) {
            int size = 0;
            for (int i = 0; i < bounds.length; i += 2) {
                if (size > 0 && bounds[size - 1] == bounds[i]) size--;
                else bounds[size++] = bounds[i];
                bounds[size++] = bounds[i + 1];
            }
            return Arrays.copyOf(bounds, size);
        }
    }
}
