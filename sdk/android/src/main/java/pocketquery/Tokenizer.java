package pocketquery;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import pocketquery.PocketQueryException.InvalidInputError;

/** What WordPiece and sentencepiece have in common: ids around a text, room for it, and literals in it. */
abstract class Tokenizer {
    static final Text.Table TABLE = new Text.Table("wordpiece.json");
    int unknownId;
    boolean cutsLeft;
    final List<Integer> before = new ArrayList<>(), after = new ArrayList<>();
    private int room;

    /** The ids of a text alone, all of them. */
    abstract List<Integer> inner(String text);

    /** The ids of a text, special ones among them. */
    List<Integer> encode(String text) {
        List<Integer> inner = inner(text);
        int cut = Math.max(0, inner.size() - room);
        List<Integer> ids = new ArrayList<>(before);
        ids.addAll(inner.subList(cutsLeft ? cut : 0, inner.size() - (cutsLeft ? 0 : cut)));
        ids.addAll(after);
        return ids;
    }

    /** To be called when {@link #before} and {@link #after} are known. */
    void limit(int maxLength) {
        int specials = before.size() + after.size();
        room = maxLength - specials;
        if (room > 0) return;
        throw new InvalidInputError("max_length is " + maxLength + ", expected at least " + (specials + 1) + ": the special tokens and one piece");
    }

    /** A text that becomes one id wherever it stands. */
    static final class Literal {
        final String content;
        final int id;
        private final boolean isWord, takesBefore, takesAfter;

        /** @param rules may have true for {@code single_word}, {@code lstrip}, {@code rstrip} */
        Literal(String content, int id, Map<?, ?> rules) {
            this.content = content;
            this.id = id;
            isWord = Boolean.TRUE.equals(rules.get("single_word"));
            takesBefore = Boolean.TRUE.equals(rules.get("lstrip"));
            takesAfter = Boolean.TRUE.equals(rules.get("rstrip"));
        }
    }

    /** The ids of the literals in a text, and the stretches between them; of several at a place the first of the list wins. */
    static List<Object> split(String text, List<Literal> literals) {
        List<Object> parts = new ArrayList<>();
        int done = 0;
        for (int at = 0; at < text.length() && !literals.isEmpty(); ) {
            Literal found = null;
            for (Literal one : literals) if (found == null && text.startsWith(one.content, at)) found = one;
            if (found == null) {
                at++;
                continue;
            }
            int start = at;
            int stop = at += found.content.length();
            boolean isInWord = start > 0 && TABLE.has("word", text.codePointBefore(start)) || stop < text.length() && TABLE.has("word", text.codePointAt(stop));
            if (found.isWord && isInWord) continue;
            while (found.takesBefore && start > done && TABLE.has("whitespace", text.charAt(start - 1))) start--;
            while (found.takesAfter && stop < text.length() && TABLE.has("whitespace", text.charAt(stop))) stop++;
            if (done < start) parts.add(text.substring(done, start));
            parts.add(found.id);
            done = stop;
            at = Math.max(at, stop);
        }
        if (done < text.length()) parts.add(text.substring(done));
        return parts;
    }
}
