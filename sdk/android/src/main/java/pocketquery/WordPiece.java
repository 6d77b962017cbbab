package pocketquery;

import java.text.Normalizer;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import pocketquery.PocketQueryException.CorruptArtifactError;

/** BERT's WordPiece of a Hugging Face {@code tokenizer.json}, by {@code docs/formats/tokenizers.md}. */
final class WordPiece extends Tokenizer {
    private final Map<String, Integer> vocabulary = new HashMap<>();
    private final Map<?, ?> normalizer;
    private final boolean stripsAccents;
    private final String prefix;
    private final int longestWord;
    private final List<Literal> raw = new ArrayList<>(), normalized = new ArrayList<>();

    WordPiece(byte[] data, int maxLength) {
        Map<?, ?> file;
        try {
            file = (Map<?, ?>) Json.parse(Json.utf8(data), 64, 20);
        } catch (IllegalArgumentException | ClassCastException error) {
            throw broken("bytes that are not a JSON object (" + Text.shortened(String.valueOf(error.getMessage())) + ")", "a JSON object");
        }
        try {
            Map<?, ?> model = section(file, "model", "WordPiece");
            section(file, "pre_tokenizer", "BertPreTokenizer");
            normalizer = section(file, "normalizer", "BertNormalizer");
            for (String flag : List.of("clean_text", "handle_chinese_chars", "lowercase")) require(normalizer.get(flag) instanceof Boolean, flag);
            Object strip = normalizer.get("strip_accents");
            stripsAccents = strip == null ? is("lowercase") : (Boolean) strip;
            ((Map<?, ?>) model.get("vocab")).forEach((piece, id) -> vocabulary.put((String) piece, id(id)));
            require(new HashSet<>(vocabulary.values()).size() == vocabulary.size(), "an id for two pieces");
            require(vocabulary.containsKey(model.get("unk_token")), "the unknown token missing from the vocabulary");
            unknownId = vocabulary.get(model.get("unk_token"));
            vocabulary.keySet().removeIf(piece -> !Text.isWellFormed(piece)); // no text has half of a character
            prefix = (String) model.get("continuing_subword_prefix");
            require(Text.length(prefix) <= 16, "a prefix of over 16 characters");
            longestWord = id(model.get("max_input_chars_per_word"));
            require(longestWord <= 1000, "words of over 1000 characters");
            readAdded((List<?>) (file.get("added_tokens") == null ? List.of() : file.get("added_tokens")));
            readSpecials((Map<?, ?>) file.get("post_processor"));
            Object truncation = file.get("truncation");
            cutsLeft = truncation instanceof Map && "Left".equals(((Map<?, ?>) truncation).get("direction"));
        } catch (ClassCastException | NullPointerException error) {
            throw broken("a field that is missing or of another type", "the fields of a BERT tokenizer");
        }
        limit(maxLength);
    }

    @Override
    List<Integer> inner(String text) {
        List<Integer> ids = new ArrayList<>();
        for (Object part : split(text, raw)) {
            if (part instanceof Integer) ids.add((Integer) part);
            else for (Object rest : split(normal((String) part), normalized)) {
                if (rest instanceof Integer) ids.add((Integer) rest);
                else for (String word : words((String) rest)) addPieces(word, ids);
            }
        }
        return ids;
    }

    private boolean is(String flag) {
        return (Boolean) normalizer.get(flag);
    }

    private String normal(String text) {
        StringBuilder clean = new StringBuilder();
        text.codePoints().forEach(point -> {
            if (is("clean_text") && TABLE.has("removed", point)) return;
            if (is("clean_text") && TABLE.has("whitespace", point)) clean.append(' ');
            else if (is("handle_chinese_chars") && TABLE.has("ideographs", point)) clean.append(' ').appendCodePoint(point).append(' ');
            else clean.appendCodePoint(point);
        });
        String made = stripsAccents ? withoutMarks(clean.toString()) : clean.toString();
        if (!is("lowercase")) return made;
        StringBuilder lower = new StringBuilder();
        made.codePoints().forEach(point -> {
            String other = point < 128 ? null : TABLE.replaced("lowercased", point);
            if (other == null && !Character.isDefined(point)) other = Words.TABLE.replaced("folded", point); // of a later Unicode than the JDK's
            lower.append(other != null ? other : Text.of(point).toLowerCase(java.util.Locale.ROOT));
        });
        return lower.toString();
    }

    private static String withoutMarks(String text) {
        if (Text.isAscii(text)) return text;
        StringBuilder parts = new StringBuilder();
        text.codePoints().forEach(point -> parts.append(TABLE.has("decomposed", point) ? Normalizer.normalize(Text.of(point), Normalizer.Form.NFD) : Text.of(point)));
        StringBuilder made = new StringBuilder();
        StringBuilder run = new StringBuilder(); // marks, which canonical order sorts by class
        for (int point : (parts + "\0").codePoints().toArray()) {
            if ((TABLE.has("marks", point) || TABLE.has("reordered", point)) && Words.isMoved(point)) {
                run.appendCodePoint(point);
                continue;
            }
            Normalizer.normalize(run, Normalizer.Form.NFD).codePoints().filter(one -> !TABLE.has("marks", one)).forEach(made::appendCodePoint);
            run.setLength(0);
            if (!TABLE.has("marks", point)) made.appendCodePoint(point);
        }
        return made.substring(0, made.length() - 1);
    }

    private static List<String> words(String text) {
        StringBuilder spaced = new StringBuilder();
        text.codePoints().forEach(point -> {
            if (TABLE.has("whitespace", point)) spaced.append(' ');
            else if (TABLE.has("punctuation", point)) spaced.append(' ').appendCodePoint(point).append(' ');
            else spaced.appendCodePoint(point);
        });
        List<String> words = new ArrayList<>(List.of(spaced.toString().split(" ")));
        words.removeIf(String::isEmpty);
        return words;
    }

    private void addPieces(String word, List<Integer> ids) {
        List<Integer> pieces = new ArrayList<>();
        int start = Text.length(word) > longestWord ? -1 : 0;
        while (start >= 0 && start < word.length()) {
            int stop = word.length();
            Integer id = null;
            for (; stop > start && id == null; stop--) id = vocabulary.get((start > 0 ? prefix : "") + word.substring(start, stop));
            if (id != null) pieces.add(id);
            start = id == null ? -1 : stop + 1;
        }
        if (start < 0) ids.add(unknownId);
        else ids.addAll(pieces);
    }

    private void readAdded(List<?> added) {
        require(added.size() <= 4096, "over 4096 added tokens");
        for (Object one : added) {
            Map<?, ?> token = (Map<?, ?>) one;
            String content = (String) token.get("content");
            require(Text.length(content) <= 256, "an added token of over 256 characters");
            boolean isNormalized = (Boolean) token.get("normalized");
            if (isNormalized) content = normal(content);
            if (content.isEmpty() && isNormalized) throw broken("nothing left of the added token '" + token.get("content") + "' after normalisation", "a text");
            List<Literal> list = isNormalized ? normalized : raw;
            Literal made = new Literal(content, id(token.get("id")), token);
            if (!content.isEmpty() && list.stream().noneMatch(other -> other.content.equals(made.content))) list.add(made);
        }
        for (List<Literal> list : List.of(raw, normalized)) list.sort((a, b) -> b.content.length() - a.content.length());
    }

    private void readSpecials(Map<?, ?> section) {
        if (section == null) return;
        if ("BertProcessing".equals(section.get("type"))) {
            before.add(id(((List<?>) section.get("cls")).get(1)));
            after.add(id(((List<?>) section.get("sep")).get(1)));
            return;
        }
        require("TemplateProcessing".equals(section.get("type")), "an unknown \"post_processor\"");
        int sequences = 0;
        for (Object item : (List<?>) section.get("single")) {
            if (((Map<?, ?>) item).containsKey("Sequence")) {
                sequences++;
                continue;
            }
            Object name = ((Map<?, ?>) ((Map<?, ?>) item).get("SpecialToken")).get("id");
            Map<?, ?> special = (Map<?, ?>) ((Map<?, ?>) section.get("special_tokens")).get(name);
            for (Object id : (List<?>) special.get("ids")) (sequences == 0 ? before : after).add(id(id));
        }
        require(sequences == 1 && before.size() + after.size() <= 64, "a template that is none of one text");
    }

    private static Map<?, ?> section(Map<?, ?> file, String name, String kind) {
        Object found = file.get(name);
        if (!(found instanceof Map)) throw broken("no \"" + name + "\"", "a \"" + name + "\" of type " + kind);
        Map<?, ?> section = (Map<?, ?>) found;
        if (!section.containsKey("type") && name.equals("model") || kind.equals(section.get("type"))) return section;
        throw broken("a \"" + name + "\" of type " + Text.shortened(String.valueOf(section.get("type"))), "type " + kind);
    }

    private static int id(Object value) {
        if (value instanceof Long && (Long) value >= 0 && (Long) value < 1 << 24) return ((Long) value).intValue();
        throw broken("the id " + Fields.show(value), "a whole number from 0 to 16777215");
    }

    private static void require(boolean holds, String found) {
        if (!holds) throw broken(found, "none");
    }

    private static CorruptArtifactError broken(String found, String expected) {
        return new CorruptArtifactError("tokenizer.json: found " + found + ", expected " + expected + "; use the file a BERT tokenizer is saved with, unchanged");
    }
}
