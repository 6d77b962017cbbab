package pocketquery;

import java.text.Normalizer;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A chunk of text cut into words and compounds, by {@code docs/formats/words.md}. */
final class Words {
    static final Text.Table TABLE = new Text.Table("words.json");
    private static final int MOST = 128;
    private static final Pattern FLAG = Pattern.compile("[\\x{1f1e6}-\\x{1f1ff}]{2}|\\x{1f3f4}[\\x{e0061}-\\x{e007a}]+\\x{e007f}");
    private static final Pattern RUN = Pattern.compile("h+|k+"
        + "|((?<![w0.])\\.(?=w)|(?<![w0-])--(?=w)|(?<![w0#])#(?=[w0])|(?<![w0@$])[@$](?=w))?"
        + "([w0]++(?:(?:_+|[-.'@&]|\\+{1,2}|::|->)[w0]++)*+)((?:\\+{1,2}|#)(?![w0]))?");
    private static final Pattern[] OF_CHUNK = {
        Pattern.compile("(?<![w0/.-])[w0]{1,3}/[w0]{1,3}(?:\\+{1,2})?(?![w0/.-])"),
        Pattern.compile("(?<![w0_])__[w0]++(?:_++[w0]++)*+__(?![w0_])")};
    private static final Pattern GROUPED = Pattern.compile("(?<![w0,.])0{1,3}(?:,000)+(?!,?[w0])");
    private static final Pattern PARTED = Pattern.compile("(?<=[\\x{620}-\\x{6ff}])\\x{200c}(?=[\\x{620}-\\x{6ff}])");
    private static final Pattern STRONG = Pattern.compile("(?<!0)\\.|\\.(?!0)|@|::|->");
    private static final Pattern WORD = Pattern.compile("[w0]+");
    private static final Pattern NUMBER = Pattern.compile("0+(?:\\.0+)+(?![w0])");
    private static final Pattern CAMEL = Pattern.compile("^[a-z][a-z0-9]+[A-Z]|[A-Z][A-Z0-9][A-Z][a-z][a-z]");
    private static final Pattern CONTRACTION = Pattern.compile("'(?:t|re|ve|ll|d|m)$|^o'", Pattern.CASE_INSENSITIVE);
    /** As written; of a chunk's words, pairs, compounds, joins and parts. */
    final List<String> words = new ArrayList<>(), pairs = new ArrayList<>(), compounds = new ArrayList<>(),
        joins = new ArrayList<>(), parts = new ArrayList<>();

    static Words cut(String chunk) {
        Words made = new Words();
        int[] text = normal(Text.isAscii(chunk) ? chunk : made.withoutEmoji(chunk)).codePoints().toArray();
        String shape = shape(text);
        Matcher run = RUN.matcher(shape);
        while (run.find()) {
            char kind = shape.charAt(run.start());
            if (run.group(2) != null) made.addChain(text, shape, run);
            else if (kind == 'h') made.addUnspaced(text, run.start(), run.end());
            else {
                made.words.add(part(text, run.start(), Math.min(run.end(), run.start() + MOST)));
                for (int i = run.start(); run.end() - run.start() > 2 && i + 1 < run.end(); i++) made.parts.add(part(text, i, i + 2));
            }
        }
        for (Pattern pattern : OF_CHUNK) {
            for (Matcher one = pattern.matcher(shape); one.find(); ) made.compounds.add(part(text, one.start(), one.end()));
        }
        for (Matcher one = GROUPED.matcher(shape); one.find(); ) made.joins.add(part(text, one.start(), one.end()).replace(",", ""));
        return made;
    }

    static boolean hasWord(String text) {
        return shape(normal(text).codePoints().toArray()).matches(".*[w0hk].*");
    }

    /** A letter, in the sense of the regular expressions for queries and of words whose nearest are looked for. */
    static boolean isLetter(int point) {
        if (point < 128) return (point | 32) >= 'a' && (point | 32) <= 'z';
        return TABLE.has("letters", point) || (TABLE.has("unspaced", point) || TABLE.has("hangul", point)) && Character.isLetter(point);
    }

    static String replaced(String text) {
        StringBuilder made = new StringBuilder();
        text.codePoints().forEach(point -> {
            if (TABLE.has("dropped", point)) return;
            int one = TABLE.has("apostrophes", point) ? '\'' : TABLE.has("hyphens", point) ? '-' : point;
            String digit = TABLE.replaced("digits", one);
            String alike = digit == null ? TABLE.replaced("alike", one) : digit;
            made.append(alike == null ? Text.of(one) : alike);
        });
        return made.toString();
    }

    static String normal(String text) {
        if (Text.isAscii(text)) return text.replace('`', '\'');
        StringBuilder safe = new StringBuilder();
        int run = 0;
        for (int point : replaced(PARTED.matcher(text).replaceAll("-")).codePoints().toArray()) {
            String parts = Normalizer.normalize(Text.of(point), Normalizer.Form.NFKD);
            run = isMoved(parts.codePointAt(0)) || replaced(parts).isEmpty() ? run + 1 : 0;
            if (run <= 30) safe.appendCodePoint(point);
        }
        return Normalizer.normalize(replaced(Normalizer.normalize(safe, Normalizer.Form.NFKD)), Normalizer.Form.NFC);
    }

    /** Whether a character has a combining class: beside marks of the greatest class and the least it changes places. */
    static boolean isMoved(int point) {
        if (point < 0x300) return false;
        String one = Text.of(point);
        return !Normalizer.isNormalized("\u0345" + one, Normalizer.Form.NFD) && Normalizer.isNormalized(one, Normalizer.Form.NFD)
            || !Normalizer.isNormalized(one + "\u0334", Normalizer.Form.NFD) && Normalizer.isNormalized(one, Normalizer.Form.NFD);
    }

    private static String shape(int[] text) {
        StringBuilder shape = new StringBuilder(text.length);
        for (int point : text) {
            if (point < 128) shape.append(point >= '0' && point <= '9' ? '0' : isLetter(point) ? 'w' : "_-.,'@&+:>/#$".indexOf(point) >= 0 ? (char) point : ' ');
            else shape.append(TABLE.has("unspaced", point) ? 'h' : TABLE.has("hangul", point) ? 'k'
                : TABLE.has("letters", point) || TABLE.has("others", point) ? 'w' : ' ');
        }
        return shape.toString();
    }

    private static String part(int[] text, int from, int to) {
        return new String(text, from, to - from);
    }

    private String withoutEmoji(String chunk) {
        StringBuilder rest = new StringBuilder();
        Matcher flag = FLAG.matcher(chunk);
        for (int at = 0; at < chunk.length(); ) {
            int stop = flag.region(at, chunk.length()).lookingAt() ? flag.end() : emoji(chunk, at);
            if (stop == at) {
                rest.appendCodePoint(chunk.codePointAt(at));
                at += Character.charCount(chunk.codePointAt(at));
                continue;
            }
            String whole = chunk.substring(at, stop).replace("\ufe0f", "");
            String[] parts = whole.replaceAll("[\\x{1f3fb}-\\x{1f3ff}]", "").split("\u200d", -1);
            words.addAll(List.of(parts));
            if (!whole.equals(parts[0])) compounds.add(whole);
            rest.append(' ');
            at = stop;
        }
        return rest.toString();
    }

    /** Where the emoji that begins at {@code at} ends; {@code at} where there is none. */
    private static int emoji(String chunk, int at) {
        int stop = oneEmoji(chunk, at);
        while (stop > at && stop < chunk.length() && chunk.charAt(stop) == '\u200d') {
            int after = oneEmoji(chunk, stop + 1);
            if (after == stop + 1 && after < chunk.length() && "\u2640\u2642\u2695\u2696\u2708".indexOf(chunk.charAt(after)) >= 0) {
                after += after + 1 < chunk.length() && chunk.charAt(after + 1) == '\ufe0f' ? 2 : 1;
            }
            if (after == stop + 1) break;
            stop = after;
        }
        return stop;
    }

    private static int oneEmoji(String chunk, int at) {
        if (at >= chunk.length() || !TABLE.has("emoji", chunk.codePointAt(at))) return at;
        int stop = at + Character.charCount(chunk.codePointAt(at));
        if (stop < chunk.length() && chunk.charAt(stop) == '\ufe0f') stop++;
        int tone = stop < chunk.length() ? chunk.codePointAt(stop) : 0;
        return tone >= 0x1f3fb && tone <= 0x1f3ff ? stop + 2 : stop;
    }

    private void addUnspaced(int[] text, int start, int stop) {
        List<String> letters = new ArrayList<>();
        for (int i = start; i < stop; i++) {
            int last = letters.size() - 1;
            if (last >= 0 && TABLE.has("unspaced_marks", text[i])) letters.set(last, letters.get(last) + Text.of(text[i]));
            else letters.add(Text.of(text[i]));
        }
        words.addAll(letters);
        for (int i = 1; i < letters.size(); i++) pairs.add(letters.get(i - 1) + letters.get(i));
    }

    private void addChain(int[] text, String shape, Matcher run) {
        int start = run.start(2);
        int stop = run.end(2);
        String prefix = part(text, run.start(), start);
        String suffix = part(text, stop, run.end());
        if (stop - start >= 2 && text[stop - 2] == '\'' && (text[stop - 1] | 32) == 's') stop -= 2;
        List<String> members = new ArrayList<>();
        Matcher sign = STRONG.matcher(shape.substring(start, stop));
        int first = start;
        int before = start;
        for (boolean isThere = sign.find(); ; isThere = sign.find()) {
            int last = isThere ? start + sign.start() : stop;
            members.add(part(text, first, last));
            addMember(members.get(members.size() - 1), shape.substring(first, last));
            if (!isThere) break;
            before = first;
            first = start + sign.end();
        }
        if (stop - start > MOST) return;
        String inside = part(text, start, stop);
        if (members.size() > 1 && members.stream().allMatch(one -> Text.length(one) == 1)) joins.add(String.join("", members));
        else if (members.size() > 1 || !prefix.isEmpty() || !suffix.isEmpty()) {
            if (members.size() > 2) compounds.add(part(text, before, stop) + suffix);
            if (members.size() > 1 && !prefix.isEmpty()) compounds.add(inside + suffix);
            compounds.add(prefix + inside + suffix);
        }
    }

    private void addMember(String text, String shape) {
        int[] points = text.codePoints().toArray();
        int count = 0;
        for (Matcher one = WORD.matcher(shape); one.find(); count++) {
            String word = part(points, one.start(), one.end());
            words.add(part(points, one.start(), Math.min(one.end(), one.start() + MOST)));
            if (!CAMEL.matcher(word).find()) continue;
            List<String> pieces = List.of(word.replaceAll("([a-z0-9])(?=[A-Z])|([A-Z])(?=[A-Z][a-z])", "$1$2 ").split(" "));
            if (pieces.stream().allMatch(piece -> Text.length(piece) > 1)) parts.addAll(pieces);
        }
        if (count == 1 || points.length > MOST) return;
        if (text.contains("'")) {
            if (count == 2 && CONTRACTION.matcher(text).find()) joins.add(text.replace("'", ""));
            return;
        }
        int skipped = text.matches("[vV][0-9]+\\.[0-9].*") ? 1 : 0;
        text = text.substring(skipped);
        Matcher number = NUMBER.matcher(shape.substring(skipped));
        if (number.find() && number.end() - number.start() < points.length - skipped) {
            compounds.add(part(points, skipped + number.start(), skipped + number.end()));
        }
        String joined = text.replaceAll("(?<![0-9])[-_]+|[-_]+(?![0-9])", "");
        (joined.codePoints().allMatch(one -> one < 128 ? isLetter(one) : TABLE.has("letters", one)) ? joins : compounds).add(joined);
        if (text.contains("_")) compounds.add(text);
    }
}
