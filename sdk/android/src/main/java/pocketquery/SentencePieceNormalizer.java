package pocketquery;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;

/**
 * How a sentencepiece model prepares a text: a table of replacements, a double array over bytes (Darts), and what becomes of blanks.
 * After sentencepiece's normalizer.cc and Darts-clone's darts.h.
 */
final class SentencePieceNormalizer {
    private static final int BLOCK = 256; // units, of which a step of one byte reads any
    private static final int MOST_BYTES = 1 << 24, LONGEST_RULE = 32, LONGEST_REPLACEMENT = 256, MOST_GROWTH = 16;
    /** As the model says. */
    boolean addsPrefix = true, joinsBlanks = true, escapesBlanks = true, prefixIsSuffix;
    private final Set<String> kept = new HashSet<>(); // in bytes
    private int longestKept;
    private int[] units = {};
    private byte[] texts = {};

    /** The pieces that stay as they are wherever they stand. */
    void keep(String piece) {
        kept.add(latin(piece.getBytes(StandardCharsets.UTF_8)));
        longestKept = Math.max(longestKept, piece.getBytes(StandardCharsets.UTF_8).length);
    }

    /** The bytes of the longest kept piece here; 0 where there is none. */
    int keptAt(String bytes, int at) {
        int length = Math.min(longestKept, bytes.length() - at);
        while (length > 0 && !kept.contains(bytes.substring(at, at + length))) length--;
        return length;
    }

    /** Bytes as a text of a character each. */
    static String latin(byte[] bytes) {
        return new String(bytes, StandardCharsets.ISO_8859_1);
    }

    /** How many bytes the character has that begins with this one. */
    static int width(char first) {
        return first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    }

    /** The text as the model's pieces spell it. */
    String normal(String text) {
        String space = escapesBlanks ? "\u2581" : " ";
        String input = latin(text.getBytes(StandardCharsets.UTF_8));
        StringBuilder normal = new StringBuilder();
        boolean isAfterBlank = joinsBlanks;
        boolean isBegun = false;
        for (int at = 0; at < input.length(); ) {
            String[] found = {""};
            at += step(input, at, found);
            if (!isBegun && joinsBlanks && found[0].equals(" ")) continue;
            if (!isBegun && addsPrefix && !prefixIsSuffix) normal.append(space);
            isBegun = true;
            String part = isAfterBlank ? found[0].replaceFirst("^ +", "") : found[0];
            if (!part.isEmpty()) {
                normal.append(part.replace(" ", space));
                isAfterBlank = part.endsWith(" ");
            }
            isAfterBlank &= joinsBlanks;
        }
        while (joinsBlanks && normal.length() > 0 && normal.charAt(normal.length() - 1) == space.charAt(0)) normal.setLength(normal.length() - 1);
        return isBegun && addsPrefix && prefixIsSuffix ? normal + space : normal.toString();
    }

    /** How many bytes are taken here; what they become is put into {@code made}. */
    private int step(String input, int at, String[] made) {
        int length = keptAt(input, at);
        int begin = -1;
        if (length == 0 && units.length > 0) {
            int node = offset(units[0]);
            for (int i = at; i < input.length(); i++) {
                node ^= input.charAt(i);
                int unit = units[node];
                if ((unit & 0x800000ff) != input.charAt(i)) break;
                node ^= offset(unit);
                if ((unit & 0x100) == 0) continue;
                length = i + 1 - at;
                begin = units[node] & 0x7fffffff;
            }
        }
        if (begin >= 0) {
            int end = begin;
            while (texts[end] != 0) end++;
            made[0] = new String(texts, begin, end - begin, StandardCharsets.UTF_8);
            return length;
        }
        if (length == 0) length = Math.min(width(input.charAt(at)), input.length() - at);
        made[0] = new String(input.substring(at, at + length).getBytes(StandardCharsets.ISO_8859_1), StandardCharsets.UTF_8);
        return length;
    }

    /** Reads the table and looks that no text can be led out of it. Throws IllegalArgumentException. */
    void readTable(byte[] blob) {
        ByteBuffer file = ByteBuffer.wrap(blob).order(ByteOrder.LITTLE_ENDIAN);
        long size = blob.length >= 4 ? file.getInt() & 0xffffffffL : 0;
        if (size == 0 || size >= blob.length - 4 || size % (4 * BLOCK) != 0 || blob.length > MOST_BYTES) {
            throw new IllegalArgumentException("its normalisation rule is broken");
        }
        units = new int[(int) size / 4];
        file.asIntBuffer().get(units);
        texts = Arrays.copyOfRange(blob, 4 + (int) size, blob.length);
        int[] lengths = lengths(texts);
        boolean[] reached = new boolean[units.length];
        reached[inside(offset(units[0]))] = true;
        // All ways at once, a byte at a time. A unit with a label is reached from one place alone.
        for (int depth = 1; depth <= LONGEST_RULE + 1; depth++) {
            boolean[] next = new boolean[units.length];
            boolean isEnd = true;
            for (int i = 0; i < units.length; i++) {
                if (units[i] < 0 || !reached[i ^ (units[i] & 0xff)]) continue;
                int target = inside(i ^ offset(units[i]));
                if ((units[i] & 0x100) != 0) {
                    int value = units[target] ^ 0x80000000;
                    int length = value >= 0 && value < lengths.length ? lengths[value] : -1;
                    if (length < 0) throw new IllegalArgumentException("its normalisation leads outside of its replacements");
                    if (length > MOST_GROWTH * depth) throw new IllegalArgumentException("its normalisation makes over " + MOST_GROWTH + " bytes of one");
                }
                next[target] = true;
                isEnd = false;
            }
            if (isEnd) return;
            reached = next;
        }
        throw new IllegalArgumentException("its normalisation has a rule of over " + LONGEST_RULE + " bytes");
    }

    private int inside(int unit) {
        if (unit >= 0 && unit < units.length) return unit;
        throw new IllegalArgumentException("its normalisation leads outside of its table");
    }

    /** At each byte the bytes of the replacement that begins there; -1: none does. */
    private static int[] lengths(byte[] texts) {
        try {
            StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(texts));
        } catch (CharacterCodingException error) {
            throw new IllegalArgumentException("a replacement of its normalisation is no UTF-8");
        }
        int[] lengths = new int[texts.length];
        Arrays.fill(lengths, -1);
        for (int begin = 0, end = 0; begin < texts.length; begin = end = end + 1) {
            while (end < texts.length && texts[end] != 0) end++;
            if (end == texts.length || end - begin >= LONGEST_REPLACEMENT) {
                throw new IllegalArgumentException("a replacement of its normalisation is over " + LONGEST_REPLACEMENT + " bytes");
            }
            lengths[begin] = end - begin;
        }
        return lengths;
    }

    private static int offset(int unit) {
        return unit >>> 10 << ((unit & 0x200) >>> 6);
    }
}
