package pocketquery;

import java.util.List;
import java.util.Map;
import pocketquery.PocketQueryException.CorruptArtifactError;
import pocketquery.PocketQueryException.UnsupportedVersionError;

/** Typed access to a JSON object that came from elsewhere; Python's {@code sdk/fields.py}, with its messages. */
final class Fields {
    final Map<String, Object> values;
    private final String source;
    private final String path;

    private Fields(Map<String, Object> values, String source, String path) {
        this.values = values;
        this.source = source;
        this.path = path;
    }

    static Fields of(Map<String, Object> values, String source) {
        return new Fields(values, source, "");
    }

    @SuppressWarnings("unchecked")
    static Fields ofJson(byte[] data, String source, int mostBytes) {
        if (data.length > mostBytes) {
            throw new CorruptArtifactError(source + ": found " + data.length + " bytes or more, expected at most " + mostBytes);
        }
        Object value;
        try {
            value = Json.parse(data);
        } catch (IllegalArgumentException error) {
            throw new CorruptArtifactError(source + ": not valid JSON: " + error.getMessage());
        }
        if (value instanceof Map) return new Fields((Map<String, Object>) value, source, "");
        throw new CorruptArtifactError(source + ": found " + show(value) + ", expected a JSON object");
    }

    void checkFormat(String format, int newest, int oldest, String rebuild) {
        String name = text("format", 1024);
        if (!name.equals(format)) throw wrong("format", show(name), "'" + format + "'; is it another artefact?");
        long version = integer("format_version", 1, Long.MAX_VALUE);
        String found = source + ": format_version is " + version + ", this release reads ";
        if (version > newest) throw new UnsupportedVersionError(found + "up to " + newest + "; update pocketquery");
        if (version < oldest) throw new UnsupportedVersionError(found + newest + "; " + rebuild);
    }

    /** A text that is not empty. */
    String text(String name, int most) {
        Object value = get(name);
        if (!(value instanceof String) || ((String) value).isEmpty()) throw wrong(name, show(value), "a text that is not empty");
        return checked(name, (String) value, most);
    }

    /** A text or null, where it may be absent. */
    String textOrNull(String name, int most) {
        return values.get(name) == null ? null : text(name, most);
    }

    String anyText(String name, int most) {
        Object value = get(name);
        if (!(value instanceof String)) throw wrong(name, show(value), "a text");
        return checked(name, (String) value, most);
    }

    long integer(String name, long least, long most) {
        Object value = get(name);
        if (!(value instanceof Long)) throw wrong(name, show(value), "an integer");
        if ((Long) value >= least && (Long) value <= most) return (Long) value;
        throw wrong(name, show(value), "an integer, at least " + least + (most == Long.MAX_VALUE ? "" : " and at most " + most));
    }

    String choice(String name, List<String> options) {
        Object value = get(name);
        if (options.contains(value)) return (String) value;
        throw wrong(name, show(value), "one of '" + String.join("', '", options) + "'");
    }

    String sha256(String name) {
        Object value = get(name);
        if (value instanceof String && ((String) value).matches("[0-9a-f]{64}")) return (String) value;
        throw wrong(name, show(value), "64 lowercase hexadecimal digits");
    }

    @SuppressWarnings("unchecked")
    Fields child(String name, int most) {
        Object value = get(name);
        if (!(value instanceof Map)) throw wrong(name, show(value), "an object");
        Map<String, Object> inside = (Map<String, Object>) value;
        if (inside.size() > most) throw wrong(name, inside.size() + " entries", "at most " + most);
        return new Fields(inside, source, path + Text.shortened(name) + ".");
    }

    List<?> list(String name, int most) {
        Object value = get(name);
        if (!(value instanceof List)) throw wrong(name, show(value), "a list");
        if (((List<?>) value).size() > most) throw wrong(name, ((List<?>) value).size() + " entries", "at most " + most);
        return (List<?>) value;
    }

    /** An object of a list. */
    @SuppressWarnings("unchecked")
    Fields item(String name, int index) {
        Object value = ((List<?>) values.get(name)).get(index);
        if (value instanceof Map) return new Fields((Map<String, Object>) value, source, path + name + "[" + index + "].");
        throw wrong(name, show(value), "objects");
    }

    CorruptArtifactError wrong(String name, String found, String expected) {
        return new CorruptArtifactError(source + ": field '" + path + name + "': found " + found + ", expected " + expected);
    }

    static String show(Object value) {
        return Text.shortened(value instanceof String ? "\"" + value + "\"" : String.valueOf(value));
    }

    private Object get(String name) {
        if (values.containsKey(name)) return values.get(name);
        throw new CorruptArtifactError(source + ": field '" + path + name + "': missing, expected it to be there");
    }

    private String checked(String name, String value, int most) {
        int length = value.codePointCount(0, value.length());
        if (length > most) throw wrong(name, length + " characters", "at most " + most);
        if (Text.isWellFormed(value)) return value;
        throw wrong(name, show(value), "a text without halves of characters (lone surrogates)");
    }
}
