package pocketquery;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.text.Normalizer;
import java.time.DateTimeException;
import java.time.LocalDate;
import java.time.LocalTime;
import java.time.YearMonth;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import pocketquery.PocketQueryException.InvalidInputError;

/** Filters on metadata, by {@code docs/formats/search-index.md}: checked when made, then asked for each document. */
final class Filter {
    private static final Object ABSENT = new Object();
    private static final List<String> OPERATORS = List.of("$all", "$contains", "$eq", "$exists", "$gt", "$gte", "$in", "$lt", "$lte", "$ne", "$nin", "$prefix");
    private static final Pattern DATE = Pattern.compile("([0-9]{4})(?:-([0-9]{2})(?:-([0-9]{2})(?:[Tt ]([0-9]{2}):([0-9]{2})"
        + "(?::([0-9]{2})(?:\\.([0-9]+))?)?([Zz]|[+-][0-9]{2}(?::?[0-9]{2})?)?)?)?)?");
    static final Pattern CODE = Pattern.compile("[a-z]{2,3}(?:-[A-Za-z0-9]{1,8}){0,3}"); // BCP 47
    private final Map<?, ?> condition;
    private int conditions, values, characters;

    /** Throws InvalidInputError. */
    Filter(Map<?, ?> condition) {
        this.condition = condition;
        check(condition, 0);
    }

    boolean matches(Map<?, ?> metadata) {
        return matches(condition, metadata);
    }

    /** The filter of a search, with that for its languages; null for any document. */
    static Filter of(Map<?, ?> condition, List<String> languages) {
        if (languages == null) return condition == null ? null : new Filter(condition);
        for (String code : languages) {
            if (code == null || !CODE.matcher(code.toLowerCase(Locale.ROOT)).matches()) {
                throw new InvalidInputError("languages has '" + code + "', expected codes such as \"de\", \"en\", \"pt-BR\"");
            }
        }
        if (languages.isEmpty()) throw new InvalidInputError("languages is empty; expected codes such as \"de\", or null for any");
        Set<String> either = new LinkedHashSet<>(languages);
        for (String code : languages) either.add(usualLetters(code));
        List<Object> any = new ArrayList<>();
        any.add(Map.of("language", Map.of("$in", List.copyOf(either))));
        for (String code : either) any.add(Map.of("language", Map.of("$prefix", code + "-")));
        return new Filter(Map.of("$and", List.of(condition == null ? Map.of() : condition, Map.of("$or", any))));
    }

    /** The code as BCP 47 writes it: pt-BR, zh-Hant. */
    private static String usualLetters(String code) {
        String[] parts = code.toLowerCase(Locale.ROOT).split("-");
        for (int part = 1; part < parts.length; part++) {
            String one = parts[part];
            if (one.length() == 2) parts[part] = one.toUpperCase(Locale.ROOT);
            if (one.length() == 4) parts[part] = one.substring(0, 1).toUpperCase(Locale.ROOT) + one.substring(1);
        }
        return String.join("-", parts);
    }

    /** What a filter compares a field with: its value, or the items of a list; null where it is absent. */
    static List<Object> valuesAt(Map<?, ?> metadata, String name) {
        Object found = valueAt(metadata, name);
        return found == ABSENT ? null : flat(Collections.singletonList(found));
    }

    private void check(Object part, int depth) {
        if (!(part instanceof Map)) {
            throw new InvalidInputError("a filter is " + Fields.show(part) + ", expected an object such as {\"lang\": \"en\", \"year\": {\"$gte\": 2000}}");
        }
        if (depth > 10) throw new InvalidInputError("the filter is nested more than 10 deep");
        checkParts(((Map<?, ?>) part).size());
        ((Map<?, ?>) part).forEach((key, value) -> {
            checkText(key);
            String name = (String) key;
            if (name.equals("$not")) check(value, depth + 1);
            else if (name.equals("$and") || name.equals("$or")) {
                checkParts(listOf(name, value).size());
                for (Object one : listOf(name, value)) check(one, depth + 1);
            } else if (name.startsWith("$")) throw new InvalidInputError("the filter has the unknown operator '" + name + "'; expected $and, $or, $not or a field's name");
            else if (value instanceof Map) {
                if (((Map<?, ?>) value).isEmpty()) {
                    throw new InvalidInputError("the filter asks nothing of '" + name + "'; expected a value or an operator such as {\"$gte\": 2000}");
                }
                checkParts(((Map<?, ?>) value).size());
                ((Map<?, ?>) value).forEach((operator, wanted) -> checkTest(operator, wanted));
            } else checkTest("$eq", value);
        });
    }

    private static void checkParts(int count) {
        if (count <= 300) return;
        throw new InvalidInputError("the filter joins " + count + " conditions, at most 300 are possible; use $in for many values of one field");
    }

    private void checkTest(Object operator, Object wanted) {
        if (!OPERATORS.contains(operator)) {
            throw new InvalidInputError("the filter has the unknown operator " + Fields.show(operator) + "; expected one of " + String.join(", ", OPERATORS));
        }
        count(++conditions, 500, "conditions");
        if (List.of("$in", "$nin", "$all").contains(operator)) {
            List<?> list = listOf((String) operator, wanted);
            count(values += list.size(), 100_000, "values");
            if (operator.equals("$all")) count(conditions += list.size(), 500, "conditions");
            for (Object one : list) checkValue("$eq", one);
        } else if (operator.equals("$exists")) {
            if (!(wanted instanceof Boolean)) throw new InvalidInputError("$exists takes true or false, found " + Fields.show(wanted));
        } else if (operator.equals("$prefix") || operator.equals("$contains")) {
            if (!(wanted instanceof String)) throw new InvalidInputError(operator + " takes a text, found " + Fields.show(wanted));
            checkText(wanted);
        } else checkValue(operator.equals("$ne") ? "$eq" : (String) operator, wanted);
    }

    private void checkValue(String operator, Object wanted) {
        if (wanted instanceof String) checkText(wanted);
        boolean isNumber = wanted instanceof Number && !Double.isNaN(((Number) wanted).doubleValue());
        if (wanted instanceof String || isNumber || operator.equals("$eq") && (wanted == null || wanted instanceof Boolean)) return;
        throw new InvalidInputError(operator + " is given " + Fields.show(wanted) + ", expected a text or a number" + (operator.equals("$eq") ? ", true, false or null" : ""));
    }

    private void checkText(Object text) {
        if (!(text instanceof String) || !Text.isWellFormed((String) text)) {
            throw new InvalidInputError("the filter has " + Fields.show(text) + ", expected a text without halves of characters");
        }
        count(characters += ((String) text).length(), 4 << 20, "characters");
    }

    private static void count(int found, int most, String what) {
        if (found <= most) return;
        throw new InvalidInputError("the filter has " + found + " " + what + " or more, at most " + most
            + " are possible; use $in for many values of one field, and search with several filters for more");
    }

    private static List<?> listOf(String operator, Object value) {
        if (value instanceof Collection) return new ArrayList<>((Collection<?>) value);
        throw new InvalidInputError(operator + " takes a list, found " + Fields.show(value));
    }

    private static boolean matches(Map<?, ?> condition, Map<?, ?> metadata) {
        for (Map.Entry<?, ?> entry : condition.entrySet()) if (!holds((String) entry.getKey(), entry.getValue(), metadata)) return false;
        return true;
    }

    private static boolean holds(String name, Object value, Map<?, ?> metadata) {
        if (name.equals("$not")) return !matches((Map<?, ?>) value, metadata);
        if (name.equals("$and")) return listOf(name, value).stream().allMatch(part -> matches((Map<?, ?>) part, metadata));
        if (name.equals("$or")) return listOf(name, value).stream().anyMatch(part -> matches((Map<?, ?>) part, metadata));
        Object found = valueAt(metadata, name);
        if (!(value instanceof Map)) return test(found, "$eq", value);
        return ((Map<?, ?>) value).entrySet().stream().allMatch(one -> test(found, (String) one.getKey(), one.getValue()));
    }

    private static Object valueAt(Map<?, ?> metadata, String name) {
        if (metadata.containsKey(name) || name.indexOf('.') < 0) return metadata.containsKey(name) ? metadata.get(name) : ABSENT;
        List<Object> reached = List.of(metadata);
        for (String part : name.split("\\.", -1)) {
            List<Object> next = new ArrayList<>();
            for (Object one : flat(reached)) if (one instanceof Map && ((Map<?, ?>) one).containsKey(part)) next.add(((Map<?, ?>) one).get(part));
            reached = next;
        }
        return reached.isEmpty() ? ABSENT : flat(reached);
    }

    private static List<Object> flat(List<Object> values) {
        List<Object> made = new ArrayList<>();
        for (Object one : values) {
            if (one instanceof List) made.addAll((List<?>) one);
            else made.add(one);
        }
        return made;
    }

    private static boolean test(Object found, String operator, Object wanted) {
        switch (operator) {
            case "$ne": return !test(found, "$eq", wanted);
            case "$nin": return !test(found, "$in", wanted);
            case "$exists": return (found != ABSENT) == (Boolean) wanted;
            case "$in": return listOf(operator, wanted).stream().anyMatch(one -> test(found, "$eq", one));
            case "$all": return listOf(operator, wanted).stream().allMatch(one -> test(found, "$eq", one));
            default:
        }
        if (found == ABSENT) return wanted == null;
        if (!(found instanceof List)) return holdsOne(found, operator, wanted);
        return ((List<?>) found).stream().anyMatch(one -> holdsOne(one, operator, wanted));
    }

    private static boolean holdsOne(Object found, String operator, Object wanted) {
        if (found == null || wanted == null) return found == wanted;
        if (found instanceof Boolean || wanted instanceof Boolean) return operator.equals("$eq") && found.equals(wanted);
        if (found instanceof Number && wanted instanceof Number) return isInOrder(compare((Number) found, (Number) wanted), operator);
        if (!(found instanceof String) || !(wanted instanceof String)) return false;
        String text = (String) found;
        String bound = (String) wanted;
        if (operator.equals("$eq")) return text.equals(bound);
        if (operator.equals("$prefix")) return text.startsWith(bound);
        if (operator.equals("$contains")) return folded(text).contains(folded(bound));
        long[] last = dates(bound);
        if (last != null && text.length() + bound.length() > 8) {
            long[] own = dates(text);
            if (own != null) return isInOrder(Long.compare(own[0], operator.equals("$gte") || operator.equals("$lt") ? last[0] : last[1]), operator);
        }
        return (last == null || bound.length() <= 4) && isInOrder(Text.compare(text, bound), operator);
    }

    private static boolean isInOrder(int order, String operator) {
        switch (operator) {
            case "$eq": return order == 0;
            case "$gt": return order > 0;
            case "$gte": return order >= 0;
            case "$lt": return order < 0;
            default: return order <= 0 && operator.equals("$lte");
        }
    }

    private static String folded(String text) {
        return Normalizer.normalize(text.toUpperCase(Locale.ROOT), Normalizer.Form.NFC);
    }

    /** The order of a field's values: false, true, numbers, texts. */
    static int compareValues(Object one, Object other) {
        int kind = (one instanceof String ? 2 : one instanceof Number ? 1 : 0) - (other instanceof String ? 2 : other instanceof Number ? 1 : 0);
        if (kind != 0) return kind;
        if (one instanceof String) return Text.compare((String) one, (String) other);
        return one instanceof Boolean ? Boolean.compare((Boolean) one, (Boolean) other) : compare((Number) one, (Number) other);
    }

    private static int compare(Number one, Number other) {
        double left = doubleOf(one);
        double right = doubleOf(other);
        if (Double.isInfinite(left) || Double.isInfinite(right)) return Double.compare(left, right);
        return exact(one, left).compareTo(exact(other, right));
    }

    private static double doubleOf(Number value) {
        boolean isHuge = value instanceof BigInteger && ((BigInteger) value).abs().bitLength() > 1023;
        return isHuge ? ((BigInteger) value).signum() * Double.POSITIVE_INFINITY : value.doubleValue();
    }

    private static BigDecimal exact(Number value, double nearest) {
        boolean isWhole = value instanceof Long || value instanceof Integer || value instanceof Short || value instanceof Byte;
        return isWhole || value instanceof BigInteger && ((BigInteger) value).bitLength() < 64 ? new BigDecimal(value.toString()) : new BigDecimal(nearest);
    }

    /** The first microsecond of a date and its last; null for no date. */
    private static long[] dates(String text) {
        Matcher parts = DATE.matcher(text);
        if (!parts.matches() || text.startsWith("0000")) return null;
        try {
            int year = Integer.parseInt(parts.group(1));
            int month = parts.group(2) == null ? 1 : Integer.parseInt(parts.group(2));
            int day = parts.group(3) == null ? 1 : Integer.parseInt(parts.group(3));
            LocalDate first = LocalDate.of(year, month, day);
            if (parts.group(4) == null) {
                LocalDate end = parts.group(3) != null ? first : parts.group(2) != null ? YearMonth.of(year, month).atEndOfMonth() : LocalDate.of(year, 12, 31);
                return new long[] {first.toEpochDay() * 86_400_000_000L, (end.toEpochDay() + 1) * 86_400_000_000L - 1};
            }
            int second = parts.group(6) == null ? 0 : Integer.parseInt(parts.group(6));
            LocalTime time = LocalTime.of(Integer.parseInt(parts.group(4)), Integer.parseInt(parts.group(5)), second);
            String fraction = (parts.group(7) == null ? "" : parts.group(7)) + "000000";
            long micros = first.toEpochDay() * 86_400_000_000L + time.toSecondOfDay() * 1_000_000L + Long.parseLong(fraction.substring(0, 6));
            String zone = parts.group(8);
            if (zone != null && zone.length() > 1) {
                int hours = Integer.parseInt(zone.substring(1, 3));
                int minutes = zone.length() == 3 ? 0 : Integer.parseInt(zone.substring(zone.length() - 2));
                if (hours > 23 || minutes > 59) return null;
                micros -= (zone.charAt(0) == '-' ? -1 : 1) * (hours * 60L + minutes) * 60_000_000L;
            }
            return new long[] {micros, micros};
        } catch (DateTimeException error) {
            return null;
        }
    }
}
