package pocketquery;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import pocketquery.PocketQueryException.InvalidInputError;

/** The part of a text that shows why it was found, around the query's words: Python's {@code results/snippet.py}; {@link Index#snippet}. */
public final class Snippet {
    private static final String ELLIPSIS = "\u2026";
    private static final int LONGEST_NAME = 256; // characters without a blank, within which a compound is looked for
    private static final String SENTENCE_ENDS = ".!?\u2026\u3002\uff01\uff1f\u0964\u061f";
    private static final double LEAST_OF_SENTENCES = .6; // of the length, before a snippet without marks ends with a sentence
    /** In one line; an ellipsis stands where it was cut. */
    public final String text;
    /** Where the query's words are in {@link #text}: first and one past the last, as {@code substring} takes them; rising, none touches another. */
    public final List<int[]> marks;

    private Snippet(String text, List<int[]> marks) {
        this.text = text;
        this.marks = marks;
    }

    /** The text with each mark between two others: {@code marked("**", "**")}. */
    public String marked(String before, String after) {
        StringBuilder made = new StringBuilder(text);
        for (int i = marks.size() - 1; i >= 0; i--) made.insert(marks.get(i)[1], after).insert(marks.get(i)[0], before);
        return made.toString();
    }

    /** @param asked with the weights of all terms that are marked */
    static Snippet of(String text, Analyzer.Query asked, Collection<String> terms, Analyzer analyzer, int length) {
        if (!Text.isWellFormed(text)) throw new InvalidInputError("the text has half of a character (a lone surrogate), expected valid Unicode");
        if (length < 20) throw new InvalidInputError("the length of a snippet is " + length + ", expected at least 20");
        return new Line(String.join(" ", Text.chunks(text)), analyzer).snippet(asked, terms, length);
    }

    /** The text in one line, counted in code points. */
    private static final class Line {
        private final int[] line;
        private final Analyzer analyzer;

        Line(String text, Analyzer analyzer) {
            line = text.codePoints().toArray();
            this.analyzer = analyzer;
        }

        Snippet snippet(Analyzer.Query asked, Collection<String> terms, int length) {
            List<int[]> marks = marks(asked, terms);
            int[] window = window(marks, length);
            int start = window[0];
            int stop = window[1];
            String before = start > 0 ? ELLIPSIS : "";
            List<int[]> shown = new ArrayList<>();
            for (int[] mark : marks) {
                if (mark[0] < start || mark[1] > stop) continue;
                int first = before.length() + part(start, mark[0]).length();
                int last = first + part(mark[0], mark[1]).length();
                int[] previous = shown.isEmpty() ? new int[] {-1, -1} : shown.get(shown.size() - 1);
                if (first <= previous[1]) previous[1] = Math.max(previous[1], last);
                else shown.add(new int[] {first, last});
            }
            return new Snippet(before + part(start, stop) + (stop < line.length ? ELLIPSIS : ""), shown);
        }

        private String part(int from, int to) {
            return new String(line, from, to - from);
        }

        /** First, one past the last, and which word of the query (a phrase below 0), in the order of the text. */
        private List<int[]> marks(Analyzer.Query asked, Collection<String> terms) {
            List<int[]> chunks = new ArrayList<>();
            for (int at = 0, start = 0; at <= line.length; at++) {
                if (at < line.length && line[at] != ' ') continue;
                chunks.add(new int[] {start, at});
                start = at + 1;
            }
            List<int[]> phrases = phrases(chunks, asked);
            List<int[]> marks = new ArrayList<>();
            for (boolean isStrong : new boolean[] {true, false}) {
                Map<String, Integer> wanted = wanted(asked, terms, isStrong);
                for (int[] chunk : chunks) addMarks(chunk[0], chunk[1], wanted, marks);
                if (!marks.isEmpty() || !phrases.isEmpty()) break;
            }
            marks.addAll(phrases);
            marks.sort(Arrays::compare);
            return marks;
        }

        /**
         * Terms that are marked, with the number of their word in the query; where none of the strong ones is in the text, the others
         * are, too: letters and digits of longer names, which are everywhere.
         */
        private Map<String, Integer> wanted(Analyzer.Query asked, Collection<String> more, boolean isStrong) {
            Map<String, Integer> wanted = new LinkedHashMap<>();
            Set<String> known = new HashSet<>();
            Set<String> common = Analyzer.COMMON.getOrDefault(analyzer.language, Set.of());
            List<String> chunks = Text.chunks(asked.plain);
            for (int number = 0; number < chunks.size(); number++) {
                Set<String> terms = terms(chunks.get(number));
                known.addAll(terms);
                StringBuilder word = new StringBuilder();
                chunks.get(number).codePoints().filter(Line::isOfWord).forEach(word::appendCodePoint);
                if (word.length() > 0 && common.contains(word.toString().toLowerCase(Locale.ROOT))) continue;
                for (String term : terms) {
                    boolean isLong = Text.length(term) > 1 && !term.matches("[0-9]+");
                    if (!isStrong || terms.size() == 1 || isLong) wanted.putIfAbsent(term, number);
                }
            }
            for (String term : more) if (!known.contains(term)) wanted.put(term, chunks.size());
            return wanted;
        }

        private Set<String> terms(String chunk) {
            return new LinkedHashSet<>(analyzer.terms(chunk).every());
        }

        private List<int[]> phrases(List<int[]> chunks, Analyzer.Query asked) {
            List<int[]> found = new ArrayList<>();
            List<int[]> places = new ArrayList<>();
            List<String> words = new ArrayList<>();
            for (int[] chunk : asked.phrases.isEmpty() ? List.<int[]>of() : chunks) {
                for (String term : analyzer.terms(part(chunk[0], chunk[1])).words) {
                    words.add(term);
                    places.add(chunk);
                }
            }
            for (int number = 0; number < asked.phrases.size(); number++) {
                List<String> phrase = asked.phrases.get(number);
                for (int at = 0; at + phrase.size() <= words.size(); at++) {
                    if (!words.subList(at, at + phrase.size()).equals(phrase)) continue;
                    int[] last = places.get(at + phrase.size() - 1);
                    List<int[]> first = atoms(places.get(at)[0], places.get(at)[1]);
                    List<int[]> ends = atoms(last[0], last[1]);
                    found.add(new int[] {first.isEmpty() ? places.get(at)[0] : first.get(0)[0], ends.isEmpty() ? last[1] : ends.get(ends.size() - 1)[1], -1 - number});
                }
            }
            return found;
        }

        /** Where in a chunk, which has no blank inside, wanted terms are. */
        private void addMarks(int begin, int end, Map<String, Integer> wanted, List<int[]> marks) {
            Set<String> missing = terms(part(begin, end));
            missing.retainAll(wanted.keySet());
            if (missing.isEmpty()) return;
            List<int[]> atoms = atoms(begin, end);
            for (int[] one : atoms) look(one[0], one[1], terms(part(one[0], one[1])), wanted, missing, marks);
            for (int i = 1; i < atoms.size(); i++) {
                int[] left = atoms.get(i - 1);
                int[] right = atoms.get(i);
                if (left[2] + right[2] < 2 || left[1] != right[0]) continue;
                look(left[0], right[1], analyzer.terms(part(left[0], right[1])).pairs, wanted, missing, marks);
            }
            for (String term : end - begin > LONGEST_NAME ? Set.<String>of() : missing) marks.add(shrunk(begin, end, term, wanted.get(term), atoms));
        }

        private static void look(int start, int stop, Collection<String> terms, Map<String, Integer> wanted, Set<String> missing, List<int[]> marks) {
            int word = Integer.MAX_VALUE;
            for (String term : terms) {
                if (wanted.containsKey(term)) word = Math.min(word, wanted.get(term));
                missing.remove(term);
            }
            if (word < Integer.MAX_VALUE) marks.add(new int[] {start, stop, word});
        }

        /** The least part of a chunk, of whole words, that still has a term. */
        private int[] shrunk(int begin, int end, String term, int word, List<int[]> atoms) {
            int start = begin;
            int stop = end;
            while (start < stop - 1 && terms(part(start + 1, stop)).contains(term)) start++;
            while (start < stop - 1 && terms(part(start, stop - 1)).contains(term)) stop--;
            int[] made = {start, stop, word};
            for (int[] one : atoms) {
                if (one[0] >= stop || one[1] <= start) continue;
                made[0] = Math.min(made[0], one[0]);
                made[1] = Math.max(made[1], one[1]);
            }
            return made;
        }

        /** The words in a chunk, with 1 for a letter of a script that writes no spaces. */
        private List<int[]> atoms(int begin, int end) {
            List<int[]> atoms = new ArrayList<>();
            for (int at = begin; at < end; at++) {
                int[] last = atoms.isEmpty() ? new int[] {-1, -1, 0} : atoms.get(atoms.size() - 1);
                boolean isUnspaced = isUnspaced(line[at]);
                boolean isWord = isUnspaced || isOfWord(line[at]);
                if (last[1] == at && (extendsCharacter(line[at]) || isWord && !isUnspaced && last[2] == 0)) last[1]++;
                else if (isWord) atoms.add(new int[] {at, at + 1, isUnspaced ? 1 : 0});
            }
            return atoms;
        }

        /** What is shown: the most words of the query, where a sentence or at least a word begins. */
        private int[] window(List<int[]> marks, int length) {
            if (line.length <= length) return new int[] {0, line.length};
            if (marks.isEmpty()) {
                int end = wordEnd(0, length - 1);
                for (int at = end; at > (int) (end * LEAST_OF_SENTENCES); at--) if (beginsSentence(at)) return new int[] {0, trimmed(at)};
                return new int[] {0, trimmed(end)};
            }
            int context = length / 4; // what is shown before the first marked word
            int most = -1;
            int mostInside = -1;
            int first = 0;
            for (int i = 0; i < marks.size(); i++) {
                Set<Integer> words = new HashSet<>();
                int inside = 0;
                for (int[] mark : marks.subList(i, Math.min(marks.size(), i + length))) {
                    if (mark[1] > marks.get(i)[0] + length - context) continue;
                    words.add(mark[2]);
                    inside++;
                }
                int score = words.size() + 2 * (int) words.stream().filter(word -> word < 0).count();
                if (score < most || score == most && inside <= mostInside) continue;
                most = score;
                mostInside = inside;
                first = marks.get(i)[0];
            }
            int start = beginning(Math.max(0, Math.min(first - context, line.length - length + 1)), first, context);
            int stop = start + length - 1 - (start > 0 ? 1 : 0);
            return new int[] {start, stop + 1 >= line.length ? line.length : wordEnd(start, stop)};
        }

        /** Where a snippet begins, at most at {@code first}: with a sentence, else with a word. */
        private int beginning(int earliest, int first, int context) {
            if (earliest == 0) return 0;
            int word = -1;
            for (int at = earliest; at <= first; at++) {
                if (!isWordEdge(at) || line[at] == ' ') continue;
                if (at <= earliest + context && beginsSentence(at)) return at;
                if (word < 0) word = at;
            }
            return word >= 0 ? word : wholeCharacter(earliest);
        }

        /** Where a snippet from {@code start} on ends, at most at {@code most}. */
        private int wordEnd(int start, int most) {
            for (int stop = most; stop > start + (most - start) / 2; stop--) if (isWordEdge(stop)) return trimmed(stop);
            return wholeCharacter(most); // in one long word
        }

        private int trimmed(int stop) {
            return stop > 0 && line[stop - 1] == ' ' ? stop - 1 : stop;
        }

        private boolean beginsSentence(int at) {
            int before = at > 0 && line[at - 1] == ' ' ? at - 2 : at - 1;
            return isWordEdge(at) && before >= 0 && SENTENCE_ENDS.indexOf(line[before]) >= 0;
        }

        /** Whether no word is cut between the characters before and at {@code at}. */
        private boolean isWordEdge(int at) {
            if (at <= 0 || at >= line.length || line[at - 1] == ' ' || line[at] == ' ') return true;
            return (isUnspaced(line[at - 1]) || isUnspaced(line[at])) && wholeCharacter(at) == at;
        }

        /** {@code at}, or before it, where no visible character is cut. */
        private int wholeCharacter(int at) {
            while (at > 0 && at < line.length && joins(at)) at--;
            return at;
        }

        private boolean joins(int at) {
            int before = line[at - 1];
            int here = line[at];
            if (extendsCharacter(here) || before == 0x200d) return true;
            if (before >= 0x1100 && before <= 0x11ff && here >= 0x1160 && here <= 0x11ff) return true; // letters of one syllable
            int flags = 0; // a flag is two regional indicators
            while (flags < at && isRegional(line[at - 1 - flags])) flags++;
            return flags % 2 == 1 && isRegional(here);
        }

        private static boolean isRegional(int point) {
            return point >= 0x1f1e6 && point <= 0x1f1ff;
        }

        private static boolean isUnspaced(int point) {
            return point > 127 && Words.TABLE.has("unspaced", point);
        }

        private static boolean isOfWord(int point) {
            return Words.hasWord(Text.of(point));
        }

        /** Whether it is seen as part of the character before: accents, vowel signs, tones, joiners. */
        private static boolean extendsCharacter(int point) {
            if (point < 128) return false;
            int type = Character.getType(point);
            return type == Character.NON_SPACING_MARK || type == Character.COMBINING_SPACING_MARK || type == Character.ENCLOSING_MARK || type == Character.FORMAT
                || Words.TABLE.has("dropped", point) || point >= 0x1f3fb && point <= 0x1f3ff || "\uff9e\uff9f\u0e33\u0eb3".indexOf(point) >= 0;
        }
    }
}
