package pocketquery;

import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** JSON into maps, lists, texts, Long, BigInteger, Double, Boolean and null; each key once, finite numbers. */
final class Json {
    private static final int MOST_DIGITS = 20;
    private final String text;
    private final int mostNesting;
    private final int mostDigits;
    private int at;

    private Json(String text, int mostNesting, int mostDigits) {
        this.text = text;
        this.mostNesting = mostNesting;
        this.mostDigits = mostDigits;
    }

    /** The value in {@code data}, by the rules for artefacts. Throws IllegalArgumentException. */
    static Object parse(byte[] data) {
        return parse(utf8(data), 64, MOST_DIGITS);
    }

    static Object parse(String text, int mostNesting, int mostDigits) {
        Json reader = new Json(text, mostNesting, mostDigits);
        Object value = reader.value(0);
        reader.blanks();
        if (reader.at < text.length()) throw reader.wrong("something behind its end");
        return value;
    }

    static String utf8(byte[] data) {
        try {
            return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(data)).toString();
        } catch (CharacterCodingException error) {
            throw new IllegalArgumentException("bytes that are no UTF-8");
        }
    }

    /** A value as JSON without blanks, as Python writes it with {@code ensure_ascii=False}; maps in their own order. */
    static String written(Object value) {
        StringBuilder made = new StringBuilder();
        write(value, made);
        return made.toString();
    }

    private static void write(Object value, StringBuilder to) {
        if (value instanceof Map) {
            String before = "{";
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
                write(entry.getKey(), to.append(before));
                write(entry.getValue(), to.append(':'));
                before = ",";
            }
            to.append(before.equals("{") ? "{}" : "}");
        } else if (value instanceof List) {
            String before = "[";
            for (Object one : (List<?>) value) {
                write(one, to.append(before));
                before = ",";
            }
            to.append(before.equals("[") ? "[]" : "]");
        } else if (value instanceof String) {
            to.append('"');
            for (char one : ((String) value).toCharArray()) {
                int place = "\"\\\b\f\n\r\t".indexOf(one);
                if (place >= 0) to.append('\\').append("\"\\bfnrt".charAt(place));
                else to.append(one < ' ' ? String.format("\\u%04x", (int) one) : String.valueOf(one));
            }
            to.append('"');
        } else to.append(value);
    }

    private Object value(int depth) {
        blanks();
        char first = peek();
        if (first == '{' || first == '[') {
            if (depth == mostNesting) throw wrong("nested deeper than " + mostNesting);
            return first == '{' ? object(depth + 1) : list(depth + 1);
        }
        if (first == '"') return string();
        for (String word : new String[] {"true", "false", "null"}) {
            if (text.startsWith(word, at)) {
                at += word.length();
                return word.equals("null") ? null : (Object) word.equals("true");
            }
        }
        return number();
    }

    private Map<String, Object> object(int depth) {
        Map<String, Object> values = new LinkedHashMap<>();
        at++;
        blanks();
        while (peek() != '}') {
            if (!values.isEmpty()) expect(',');
            blanks();
            String key = string();
            blanks();
            expect(':');
            if (values.containsKey(key)) throw wrong("the key '" + Text.shortened(key) + "' occurs twice");
            values.put(key, value(depth));
            blanks();
        }
        at++;
        return values;
    }

    private List<Object> list(int depth) {
        List<Object> values = new ArrayList<>();
        at++;
        blanks();
        while (peek() != ']') {
            if (!values.isEmpty()) expect(',');
            values.add(value(depth));
            blanks();
        }
        at++;
        return values;
    }

    private String string() {
        expect('"');
        StringBuilder made = new StringBuilder();
        while (peek() != '"') {
            char one = text.charAt(at++);
            if (one < ' ') throw wrong("a control character in a text");
            made.append(one == '\\' ? escaped() : one);
        }
        at++;
        return made.toString();
    }

    private char escaped() {
        char one = peek();
        at++;
        if (one == 'u') {
            if (at + 4 > text.length() || !text.substring(at, at + 4).matches("[0-9a-fA-F]{4}")) throw wrong("a broken escape");
            at += 4;
            return (char) Integer.parseInt(text.substring(at - 4, at), 16);
        }
        int place = "\"\\/bfnrt".indexOf(one);
        if (place < 0) throw wrong("an unknown escape");
        return "\"\\/\b\f\n\r\t".charAt(place);
    }

    private Object number() {
        int start = at;
        if (peek() == '-') at++;
        if (peek() == '0') at++;
        else digits();
        int whole = at;
        if (at < text.length() && text.charAt(at) == '.') {
            at++;
            digits();
        }
        if (at < text.length() && (text.charAt(at) | 32) == 'e') {
            at++;
            if (peek() == '+' || peek() == '-') at++;
            digits();
        }
        String found = text.substring(start, at);
        if (at == whole) {
            if (found.length() > mostDigits) throw wrong("an integer of " + found.length() + " digits, expected at most " + mostDigits);
            return found.length() < 19 ? (Object) Long.valueOf(found) : whole(new BigInteger(found));
        }
        double value = Double.parseDouble(found);
        if (Double.isInfinite(value)) throw wrong("the number " + Text.shortened(found) + " is too large");
        return value;
    }

    static Object whole(BigInteger value) {
        return value.bitLength() < 64 ? (Object) value.longValue() : value;
    }

    private void digits() {
        int start = at;
        while (at < text.length() && text.charAt(at) >= '0' && text.charAt(at) <= '9') at++;
        if (at == start) throw wrong("no value");
    }

    private void blanks() {
        while (at < text.length() && " \t\n\r".indexOf(text.charAt(at)) >= 0) at++;
    }

    private char peek() {
        if (at >= text.length()) throw wrong("its end within a value");
        return text.charAt(at);
    }

    private void expect(char one) {
        if (peek() != one) throw wrong("no " + one);
        at++;
    }

    private IllegalArgumentException wrong(String what) {
        return new IllegalArgumentException(what + ": character " + at);
    }
}
