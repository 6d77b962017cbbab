package pocketquery;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;

/** Which rows a search may return: by its filter, and by what its text demands. */
final class Selection {
    private final Contents contents;

    private Selection(Contents contents) {
        this.contents = contents;
    }

    /** The rows that may be hits. */
    static boolean[] of(Contents contents, Analyzer.Query query, Filter filter) {
        boolean[] allowed = contents.isAlive.clone();
        if (query != null && query.demands()) new Selection(contents).demand(query, allowed);
        if (filter == null) return allowed;
        for (Object[] one : contents.database.query("SELECT row, metadata FROM documents")) {
            int row = contents.row(one[0]);
            allowed[row] = allowed[row] && filter.matches(Contents.metadata(one[1]));
        }
        return allowed;
    }

    /** Keeps the rows that have what the query demands: by postings, and of phrases by the texts of those that have all words. */
    private void demand(Analyzer.Query query, boolean[] allowed) {
        keep(allowed, having(query.required), true);
        for (Set<String> one : query.excluded) keep(allowed, having(one), false);
        for (List<String> one : query.phrases) keep(allowed, havingInOrder(one, allowed), true);
        for (List<String> one : query.excludedPhrases) keep(allowed, havingInOrder(one, allowed), false);
    }

    private static void keep(boolean[] allowed, boolean[] some, boolean wanted) {
        for (int row = 0; row < allowed.length; row++) allowed[row] &= some[row] == wanted;
    }

    private boolean[] having(Collection<String> terms) {
        int[] counts = new int[contents.isAlive.length];
        Set<String> each = new TreeSet<>(terms);
        contents.postings(each).values().forEach(segments -> segments.forEach(segment -> {
            ByteBuffer rows = ByteBuffer.wrap((byte[]) segment[2]).order(ByteOrder.LITTLE_ENDIAN);
            while (rows.hasRemaining()) counts[contents.row((Long) segment[1] + rows.getInt())]++;
        }));
        boolean[] all = new boolean[counts.length];
        for (int row = 0; row < all.length; row++) all[row] = counts[row] == each.size();
        return all;
    }

    private boolean[] havingInOrder(List<String> phrase, boolean[] allowed) {
        boolean[] all = having(phrase);
        for (int row = 0; row < all.length; row++) all[row] = all[row] && allowed[row] && hasInOrder(row, phrase);
        return all;
    }

    /** Leaves out the phrases that no document has, which demand nothing; not those behind a +. */
    static void dropAbsent(Contents contents, Analyzer.Query query) {
        Selection all = new Selection(contents);
        query.phrases.removeIf(phrase -> !query.requiredPhrases.contains(phrase) && !all.isThere(phrase));
    }

    private boolean isThere(List<String> phrase) {
        boolean[] all = having(phrase);
        for (int row = 0; row < all.length; row++) if (all[row] && contents.isAlive[row] && hasInOrder(row, phrase)) return true;
        return false;
    }

    private boolean hasInOrder(int row, List<String> phrase) {
        Hit one = contents.hit(row, 0, 0, 0, 0);
        Object title = one.metadata.get("title");
        return Collections.indexOfSubList(contents.analyzer.sequence(title instanceof String ? title + " " + one.text : one.text), phrase) >= 0;
    }
}
