package pocketquery;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.PriorityQueue;
import java.util.Set;
import pocketquery.PocketQueryException.CorruptArtifactError;
import pocketquery.PocketQueryException.InvalidInputError;

/** A sentencepiece model, unigram or BPE, with the ids of the sentencepiece library, by {@code docs/formats/tokenizers.md}. */
final class SentencePiece extends Tokenizer {
    private static final int NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER_DEFINED = 4, UNUSED = 5, BYTE = 6;
    private static final int MOST_PIECES = 1 << 20, LONGEST_PIECE = 512, MOST_NESTED = 64, FIRST_PIECE = 3;
    private static final String[] SPECIALS = {"<s>", "<pad>", "</s>", "<unk>"};
    private final List<String> pieces = new ArrayList<>();
    private final List<Float> scores = new ArrayList<>();
    private final List<Integer> types = new ArrayList<>();
    private final Map<String, Integer> ids = new HashMap<>(), reserved = new HashMap<>();
    private final int[] reach = new int[1 << 16]; // by the first character, the longest piece
    private final SentencePieceNormalizer normalizer = new SentencePieceNormalizer();
    private final List<Literal> literals = new ArrayList<>();
    private final int known, shift, unknownPiece;
    private final String[] names = {"<unk>", "<s>", "</s>"};
    private long kind = 1;
    private boolean hasBytes;
    private float unknownScore = Float.POSITIVE_INFINITY, highest = Float.MIN_NORMAL;

    /**
     * The model in {@code data}.
     *
     * @param layout "plain", or "xlm-roberta"
     * @param knownPieces pieces numbered from here on become unknown; null knows all
     */
    SentencePiece(byte[] data, int maxLength, Object layout, Object knownPieces) {
        if (!"xlm-roberta".equals(layout) && !"plain".equals(layout)) {
            throw new InvalidInputError("found the layout " + Fields.show(layout) + ", expected one of ('xlm-roberta', 'plain')");
        }
        try {
            if (data.length == 0) throw new IllegalArgumentException("no bytes");
            read(new Protobuf(data));
            check();
        } catch (IllegalArgumentException error) {
            throw new CorruptArtifactError("tokenizer.model: found " + data.length + " bytes that are not a sentencepiece model (" + error.getMessage()
                + "); use the file the encoder was trained with, unchanged");
        }
        unknownPiece = types.indexOf(UNKNOWN);
        for (int id = 0; id < pieces.size(); id++) {
            String piece = pieces.get(id);
            int type = types.get(id);
            if (!isForText(type)) continue;
            reach[piece.charAt(0)] = Math.max(reach[piece.charAt(0)], piece.length());
            if (type == USER_DEFINED) normalizer.keep(piece);
            if (type == NORMAL) unknownScore = Math.min(unknownScore, scores.get(id));
            if (type == NORMAL) highest = Math.max(highest, scores.get(id));
        }
        unknownScore -= 10;
        known = knownPieces == null ? pieces.size() : knownPieces instanceof Long ? (int) Math.min((Long) knownPieces, Integer.MAX_VALUE) : -1;
        if (known <= FIRST_PIECE && knownPieces != null || known > pieces.size()) {
            throw new InvalidInputError("known_pieces is " + Fields.show(knownPieces) + ", expected a whole number from " + (FIRST_PIECE + 1)
                + " to the model's " + pieces.size() + " pieces");
        }
        boolean isXlm = layout.equals("xlm-roberta");
        int begin = control(names[1]);
        int end = control(names[2]);
        if (isXlm && (unknownPiece != 0 || begin != 1 || end != 2)) {
            throw new CorruptArtifactError("tokenizer.model: found <unk>, <s>, </s> at (" + unknownPiece + ", " + begin + ", " + end
                + "), expected them at (0, 1, 2) for the layout \"xlm-roberta\"; the layout \"plain\" takes any model");
        }
        shift = isXlm ? 1 : 0;
        unknownId = isXlm ? 3 : unknownPiece;
        if (isXlm || begin >= 0) before.add(isXlm ? 0 : begin);
        if (isXlm || end >= 0) after.add(isXlm ? 2 : end);
        for (int id = 0; isXlm && id < SPECIALS.length; id++) literals.add(new Literal(SPECIALS[id], id, Map.of()));
        if (isXlm) literals.add(new Literal("<mask>", known + 1, Map.of("lstrip", true)));
        limit(maxLength);
    }

    @Override
    List<Integer> inner(String text) {
        List<Integer> made = new ArrayList<>();
        for (Object part : split(text, literals)) {
            if (part instanceof Integer) made.add((Integer) part);
            else for (int id : pieces((String) part)) made.add(id == unknownPiece || id >= known ? unknownId : id + shift);
        }
        return made;
    }

    /** The numbers, in the model's own file, of a text's pieces. */
    private List<Integer> pieces(String text) {
        String normal = normalizer.normal(text);
        List<Integer> made = new ArrayList<>();
        boolean isAfterUnknown = false;
        for (String piece : kind == 1 ? bestPath(normal) : merged(normal)) {
            int id = kind == 1 ? ids.getOrDefault(piece, unknownPiece) : idOf(piece);
            if (kind == 1 && types.get(id) == UNUSED) id = unknownPiece;
            if (id == unknownPiece && hasBytes) {
                for (byte one : piece.getBytes(StandardCharsets.UTF_8)) made.add(idOf(String.format("<0x%02X>", one)));
            } else if (id != unknownPiece || !isAfterUnknown) made.add(id); // a run of unknown pieces is one
            isAfterUnknown = id == unknownPiece;
        }
        return made;
    }

    private int idOf(String piece) {
        Integer id = reserved.getOrDefault(piece, ids.get(piece));
        return id == null ? unknownPiece : id;
    }

    private static boolean isForText(int type) {
        return type == NORMAL || type == USER_DEFINED || type == UNUSED;
    }

    private int control(String piece) {
        int id = idOf(piece);
        return types.get(id) == CONTROL ? id : -1;
    }

    /** The path of pieces with the highest sum of scores (Kudo, "Subword Regularization", 2018). */
    private List<String> bestPath(String text) {
        float[] best = new float[text.length() + 1]; // of the path that ends here
        int[] starts = new int[text.length() + 1]; // of that path's last piece
        Arrays.fill(starts, -1);
        for (int start = 0, width; start < text.length(); start += width) {
            width = Character.charCount(text.codePointAt(start));
            boolean isSingle = false;
            for (int stop = start + width; stop <= Math.min(text.length(), start + reach[text.charAt(start)]); stop++) {
                String piece = text.substring(start, stop);
                Integer id = ids.get(piece);
                if (id == null || types.get(id) == UNUSED) continue;
                isSingle |= stop == start + width;
                // The library's sum is in double precision and kept in single.
                double score = types.get(id) == USER_DEFINED ? piece.getBytes(StandardCharsets.UTF_8).length * highest - .1 : scores.get(id);
                offer(best, starts, start, stop, score + best[start]);
            }
            if (!isSingle) offer(best, starts, start, start + width, unknownScore + best[start]);
        }
        List<String> path = new ArrayList<>();
        for (int stop = text.length(); stop > 0; stop = starts[stop]) path.add(text.substring(starts[stop], stop));
        Collections.reverse(path);
        return path;
    }

    private static void offer(float[] best, int[] starts, int start, int stop, double score) {
        if (starts[stop] >= 0 && !(score > best[stop])) return;
        best[stop] = (float) score;
        starts[stop] = start;
    }

    /** Neighbours joined while a piece is made by it, the best first (Sennrich et al., 2016; after sentencepiece's bpe_model.cc). */
    private List<String> merged(String text) {
        List<String> symbols = new ArrayList<>(); // empty once joined to the one before
        Set<Integer> frozen = new HashSet<>();
        String bytes = SentencePieceNormalizer.latin(text.getBytes(StandardCharsets.UTF_8));
        for (int at = 0; at < bytes.length(); ) {
            int length = normalizer.keptAt(bytes, at);
            if (length > 0) frozen.add(symbols.size());
            else length = SentencePieceNormalizer.width(bytes.charAt(at));
            symbols.add(new String(bytes.substring(at, at + length).getBytes(StandardCharsets.ISO_8859_1), StandardCharsets.UTF_8));
            at += length;
        }
        PriorityQueue<Object[]> agenda = new PriorityQueue<>((a, b) -> a[0].equals(b[0]) ? (Integer) a[1] - (Integer) b[1] : Float.compare((Float) b[0], (Float) a[0]));
        Map<String, String[]> halves = new HashMap<>();
        for (int i = 1; i < symbols.size(); i++) consider(symbols, frozen, i - 1, i, agenda, halves);
        for (Object[] pair = agenda.poll(); pair != null; pair = agenda.poll()) {
            int left = (Integer) pair[1];
            int right = (Integer) pair[2];
            boolean isStill = !symbols.get(left).isEmpty() && !symbols.get(right).isEmpty();
            if (!isStill || symbols.get(left).length() + symbols.get(right).length() != (Integer) pair[3]) continue; // joined meanwhile
            symbols.set(left, symbols.get(left) + symbols.get(right));
            symbols.set(right, "");
            consider(symbols, frozen, next(symbols, left, -1), left, agenda, halves);
            consider(symbols, frozen, left, next(symbols, left, 1), agenda, halves);
        }
        List<String> made = new ArrayList<>();
        for (String symbol : symbols) if (!symbol.isEmpty()) takeApart(symbol, halves, made);
        return made;
    }

    private static int next(List<String> symbols, int at, int step) {
        int found = at + step;
        while (found >= 0 && found < symbols.size() && symbols.get(found).isEmpty()) found += step;
        return found;
    }

    private void consider(List<String> symbols, Set<Integer> frozen, int left, int right, PriorityQueue<Object[]> agenda, Map<String, String[]> halves) {
        if (left < 0 || right >= symbols.size() || frozen.contains(left) || frozen.contains(right)) return;
        String piece = symbols.get(left) + symbols.get(right);
        Integer id = ids.get(piece);
        if (id == null) return;
        agenda.add(new Object[] {scores.get(id) + 0f, left, right, piece.length()});
        if (types.get(id) == UNUSED) halves.put(piece, new String[] {symbols.get(left), symbols.get(right)});
    }

    private void takeApart(String piece, Map<String, String[]> halves, List<String> made) {
        String[] parts = types.get(idOf(piece)) == UNUSED ? halves.get(piece) : null;
        if (parts == null) made.add(piece);
        else for (String part : parts) takeApart(part, halves, made);
    }

    private void read(Protobuf file) {
        while (file.next()) {
            if (file.wire != Protobuf.BYTES) continue;
            if (file.number == 1) readPiece(file.inside());
            if (pieces.size() > MOST_PIECES) throw new IllegalArgumentException("over " + MOST_PIECES + " pieces");
            if (file.number != 2 && file.number != 3) continue;
            for (Protobuf field = file.inside(); field.next(); ) {
                if (file.number == 2) readTrainer(field);
                else readNormalizer(field);
            }
        }
        if (kind != 1 && kind != 2) {
            String name = kind == 3 ? "word" : kind == 4 ? "char" : "kind " + kind;
            throw new IllegalArgumentException("a model of type " + name + ", this library knows unigram and bpe");
        }
    }

    private void readPiece(Protobuf field) {
        String text = "";
        float score = 0;
        long type = NORMAL;
        Set<Integer> seen = new HashSet<>();
        while (field.next()) {
            if (!seen.add(field.number)) throw new IllegalArgumentException("a piece has a field twice");
            if (field.number == 1 && field.wire == Protobuf.BYTES) {
                if (field.stop - field.begin > LONGEST_PIECE) throw new IllegalArgumentException("a piece is too long");
                text = field.text();
            } else if (field.number == 2 && field.wire == Protobuf.FIXED32) score = field.float32();
            else if (field.number == 3 && field.wire == Protobuf.VARINT) type = field.value;
            else throw new IllegalArgumentException("a piece has a field that pieces do not have");
        }
        if (text.isEmpty() || text.indexOf('\0') >= 0) throw new IllegalArgumentException("a piece is empty or has a NUL");
        if (Float.isNaN(score) || Float.isInfinite(score)) throw new IllegalArgumentException("a score that is not finite");
        if (type < NORMAL || type > BYTE) throw new IllegalArgumentException("a piece of type " + type);
        Map<String, Integer> names = isForText((int) type) ? ids : reserved;
        if (names.put(text, pieces.size()) != null) throw new IllegalArgumentException("two pieces with the same text");
        if (type == BYTE && !text.matches("<0x[0-9A-F]{2}>")) throw new IllegalArgumentException("the piece of a byte is invalid");
        pieces.add(text);
        scores.add(score);
        types.add((int) type);
    }

    private static void expect(Protobuf field, List<Integer> texts, List<Integer> numbers) {
        if (texts.contains(field.number) && field.wire != Protobuf.BYTES || numbers.contains(field.number) && field.wire != Protobuf.VARINT) {
            throw new IllegalArgumentException("field " + field.number + " is of another type");
        }
    }

    private void readTrainer(Protobuf field) {
        expect(field, List.of(45, 46, 47), List.of(3, 24, 35));
        if (field.number == 3) kind = field.value;
        if (field.number == 24) normalizer.prefixIsSuffix = field.value != 0;
        if (field.number == 35) hasBytes = field.value != 0;
        if (field.number >= 45 && field.number <= 47 && !field.text().isEmpty()) names[field.number - 45] = field.text();
    }

    private void readNormalizer(Protobuf field) {
        expect(field, List.of(2), List.of(3, 4, 5));
        if (field.number == 2 && field.stop > field.begin) normalizer.readTable(Arrays.copyOfRange(field.data, field.begin, field.stop));
        if (field.number == 3) normalizer.addsPrefix = field.value != 0;
        if (field.number == 4) normalizer.joinsBlanks = field.value != 0;
        if (field.number == 5) normalizer.escapesBlanks = field.value != 0;
    }

    /** What the sentencepiece library refuses, or would fail on. */
    private void check() {
        int unknown = Collections.frequency(types, UNKNOWN);
        if (unknown != 1) throw new IllegalArgumentException(unknown + " pieces of type unknown, expected 1");
        if (ids.isEmpty()) throw new IllegalArgumentException("no pieces for text");
        int bytes = Collections.frequency(types, BYTE);
        if (bytes != (hasBytes ? 256 : 0)) throw new IllegalArgumentException(bytes + " pieces of bytes, expected " + (hasBytes ? 256 : 0));
        List<String> own = new ArrayList<>();
        for (int id = 0; id < pieces.size(); id++) if (types.get(id) == USER_DEFINED) own.add(pieces.get(id));
        Collections.sort(own);
        List<String> around = new ArrayList<>(); // each begins with the one before
        for (String text : own) {
            while (!around.isEmpty() && !text.startsWith(around.get(around.size() - 1))) around.remove(around.size() - 1);
            around.add(text);
            if (around.size() > MOST_NESTED) throw new IllegalArgumentException("too many user-defined pieces begin with one another");
        }
    }
}
