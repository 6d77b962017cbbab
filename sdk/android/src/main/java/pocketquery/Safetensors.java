package pocketquery;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import pocketquery.PocketQueryException.CorruptArtifactError;

/** Tensors by name in the safetensors format, read strictly, and written in its one spelling: {@code docs/formats/bundle.md}. */
final class Safetensors {
    private static final Map<String, Integer> ITEM_BYTES =
        Map.ofEntries(Map.entry("F64", 8), Map.entry("F32", 4), Map.entry("F16", 2), Map.entry("I64", 8), Map.entry("I32", 4), Map.entry("I16", 2),
            Map.entry("I8", 1), Map.entry("U64", 8), Map.entry("U32", 4), Map.entry("U16", 2), Map.entry("U8", 1), Map.entry("BOOL", 1));
    final Map<String, Tensor> tensors = new TreeMap<>(Text::compare);
    final Map<String, Object> metadata = new TreeMap<>(Text::compare);

    static final class Tensor {
        final String dtype;
        final List<?> shape;
        final byte[] bytes;

        Tensor(String dtype, List<?> shape, byte[] bytes) {
            this.dtype = dtype;
            this.shape = shape;
            this.bytes = bytes;
        }

        /** The values of float16 or float32; null for another dtype, and where one is not finite. */
        float[] values() {
            boolean isHalf = dtype.equals("F16");
            if (!isHalf && !dtype.equals("F32")) return null;
            ByteBuffer data = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
            float[] values = new float[bytes.length / (isHalf ? 2 : 4)];
            for (int i = 0; i < values.length; i++) {
                values[i] = isHalf ? widened(data.getShort() & 0xffff) : data.getFloat();
                if (Float.isNaN(values[i]) || Float.isInfinite(values[i])) return null;
            }
            return values;
        }

        private static float widened(int half) {
            int exponent = half >> 10 & 0x1f;
            int fraction = half & 0x3ff;
            float size = exponent == 0x1f ? Float.NaN : exponent == 0 ? Math.scalb((float) fraction, -24) : Math.scalb((float) (fraction | 0x400), exponent - 25);
            return (half & 0x8000) != 0 ? -size : size;
        }
    }

    /** Reads {@code data}; errors call it {@code source}. */
    Safetensors(byte[] data, String source) {
        if (data.length < 8) throw new CorruptArtifactError(source + ": " + data.length + " bytes found, at least 8 expected; the file is truncated");
        long length = ByteBuffer.wrap(data).order(ByteOrder.LITTLE_ENDIAN).getLong();
        if (length < 0 || length > Math.min(data.length - 8, 100_000_000)) {
            throw new CorruptArtifactError(source + ": the header claims " + Long.toUnsignedString(length) + " bytes, " + (data.length - 8)
                + " are there; the file is truncated or not a safetensors file");
        }
        int begin = 8 + (int) length;
        Object header;
        try {
            header = Json.parse(Arrays.copyOfRange(data, 8, begin));
        } catch (IllegalArgumentException error) {
            throw new CorruptArtifactError(source + ": the header is not valid JSON: " + error.getMessage());
        }
        if (!(header instanceof Map)) throw new CorruptArtifactError(source + ": the header is not a JSON object");
        TreeMap<Long, Long> spans = new TreeMap<>();
        ((Map<?, ?>) header).forEach((name, spec) -> {
            if (name.equals("__metadata__")) readMetadata(spec, source);
            else readTensor((String) name, spec, Arrays.copyOfRange(data, begin, data.length), source, spans);
        });
        long position = 0;
        for (Map.Entry<Long, Long> span : spans.entrySet()) {
            if (span.getKey() != position) {
                throw new CorruptArtifactError(source + ": a tensor begins at " + span.getKey() + ", expected " + position
                    + "; tensors may neither overlap nor leave gaps");
            }
            position = span.getValue();
        }
        if (position == data.length - begin) return;
        throw new CorruptArtifactError(source + ": the tensors need " + position + " bytes, " + (data.length - begin)
            + " are there; the file is truncated or was appended to");
    }

    private void readMetadata(Object found, String source) {
        if (!(found instanceof Map) || !((Map<?, ?>) found).values().stream().allMatch(one -> one instanceof String)) {
            throw new CorruptArtifactError(source + ": __metadata__ must map text to text, found " + Fields.show(found));
        }
        ((Map<?, ?>) found).forEach((key, value) -> metadata.put((String) key, value));
    }

    private void readTensor(String name, Object spec, byte[] body, String source, TreeMap<Long, Long> spans) {
        String where = source + ": tensor '" + Text.shortened(name) + "': ";
        if (!(spec instanceof Map) || !((Map<?, ?>) spec).keySet().equals(Set.of("dtype", "shape", "data_offsets"))) {
            throw new CorruptArtifactError(where + "expected exactly dtype, shape and data_offsets, found " + Fields.show(spec));
        }
        Map<?, ?> entry = (Map<?, ?>) spec;
        Integer item = entry.get("dtype") instanceof String ? ITEM_BYTES.get(entry.get("dtype")) : null;
        if (item == null) {
            throw new CorruptArtifactError(where + "dtype " + Fields.show(entry.get("dtype")) + ", expected one of F64, F32, F16, I64, I32, I16, I8, U64, U32, U16, U8, BOOL");
        }
        double wanted = item; // exact as far as any file goes
        for (long one : naturals(entry, "shape", where)) wanted *= one;
        List<Long> offsets = naturals(entry, "data_offsets", where);
        if (offsets.size() != 2) throw new CorruptArtifactError(where + "data_offsets " + Fields.show(offsets) + ", expected [begin, end]");
        long begin = offsets.get(0);
        long end = offsets.get(1);
        if (end - begin != wanted || end > body.length) {
            throw new CorruptArtifactError(where + "data_offsets span " + (end - begin) + " bytes, dtype and shape " + Fields.show(entry.get("shape")) + " need "
                + String.format("%.0f", wanted) + ", " + body.length + " are there");
        }
        if (begin < end && spans.put(begin, end) != null) throw new CorruptArtifactError(where + "lies over another; tensors may neither overlap nor leave gaps");
        tensors.put(name, new Tensor((String) entry.get("dtype"), (List<?>) entry.get("shape"), Arrays.copyOfRange(body, (int) begin, (int) end)));
    }

    private static List<Long> naturals(Map<?, ?> entry, String field, String where) {
        Object found = entry.get(field);
        List<Long> made = new ArrayList<>();
        for (Object one : found instanceof List ? (List<?>) found : List.of(-1L)) {
            if (!(one instanceof Long) || (Long) one < 0) {
                throw new CorruptArtifactError(where + field + " " + Fields.show(found) + ", expected a list of integers not below 0");
            }
            made.add((Long) one);
        }
        return made;
    }

    /** The tensors as a file, with the metadata or without: the same tensors give the same bytes. */
    byte[] written(boolean withMetadata) {
        List<String> names = new ArrayList<>(tensors.keySet());
        names.sort((a, b) -> ITEM_BYTES.get(tensors.get(b).dtype) - ITEM_BYTES.get(tensors.get(a).dtype)); // stable: names stay in order
        Map<String, Object> header = new LinkedHashMap<>();
        if (withMetadata && !metadata.isEmpty()) header.put("__metadata__", metadata);
        int position = 0;
        for (String name : names) {
            Tensor tensor = tensors.get(name);
            Map<String, Object> entry = new LinkedHashMap<>();
            entry.put("dtype", tensor.dtype);
            entry.put("shape", tensor.shape);
            entry.put("data_offsets", List.of(position, position += tensor.bytes.length));
            header.put(name, entry);
        }
        byte[] text = Json.written(header).getBytes(StandardCharsets.UTF_8);
        int padded = (text.length + 7) / 8 * 8;
        ByteBuffer file = ByteBuffer.allocate(8 + padded + position).order(ByteOrder.LITTLE_ENDIAN).putLong(padded).put(text);
        while (file.position() < 8 + padded) file.put((byte) ' ');
        for (String name : names) file.put(tensors.get(name).bytes);
        return file.array();
    }
}
