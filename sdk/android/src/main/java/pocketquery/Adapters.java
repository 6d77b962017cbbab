package pocketquery;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import pocketquery.PocketQueryException.CorruptArtifactError;

/**
 * Where in an ONNX model's bytes the values lie that an adapter replaces: float32 initializers that are inputs, too. An adapter is
 * written there, since onnxruntime's Java API does not say which initializers may be replaced.
 */
final class Adapters {
    private static final int FLOAT = 1; // TensorProto.DataType
    private final byte[] model;
    private final String source;
    private final Map<String, List<Long>> shapes = new TreeMap<>();
    private final Map<String, Integer> places = new TreeMap<>();

    /** @param source how errors call the bundle */
    Adapters(byte[] model, String source) {
        this.model = model;
        this.source = source;
        List<String> inputs = new ArrayList<>();
        try {
            for (Protobuf file = new Protobuf(model); file.next(); ) {
                if (file.number != 7 || file.wire != Protobuf.BYTES) continue;
                for (Protobuf graph = file.inside(); graph.next(); ) {
                    if (graph.number == 5) readInitializer(graph.inside());
                    if (graph.number != 11) continue;
                    for (Protobuf input = graph.inside(); input.next(); ) if (input.number == 1) inputs.add(input.text());
                }
            }
        } catch (IllegalArgumentException error) {
            throw new CorruptArtifactError(source + ": onnxruntime cannot load encoder.onnx: " + error.getMessage());
        }
        shapes.keySet().retainAll(inputs);
    }

    private void readInitializer(Protobuf field) {
        String name = "";
        long type = 0;
        long bytes = 4;
        int begin = 0;
        int end = 0;
        List<Long> shape = new ArrayList<>();
        while (field.next()) {
            if (field.number == 1) {
                for (long size : field.numbers()) {
                    shape.add(size);
                    bytes *= size;
                }
            }
            if (field.number == 2) type = field.value;
            if (field.number == 8) name = field.text();
            if (field.number == 14 && field.value != 0) type = -1; // its values are in another file
            if ((field.number != 4 && field.number != 9) || field.wire != Protobuf.BYTES) continue;
            begin = field.begin; // float_data, packed, has the same bytes as raw_data
            end = field.stop;
        }
        if (type != FLOAT || end - begin != bytes) return;
        shapes.put(name, shape);
        places.put(name, begin);
    }

    /** Writes an adapter's values into the model; with {@code complete} all that an adapter may have must be there. */
    void write(Map<String, Safetensors.Tensor> tensors, boolean complete, String version, String bundle) {
        List<String> missing = new ArrayList<>(shapes.keySet());
        missing.removeAll(tensors.keySet());
        if (complete && !missing.isEmpty()) { // the graph's defaults would take their place, which belong to another training
            throw new CorruptArtifactError("the adapter, version " + version + ", lacks the tensors " + String.join(", ", missing) + "; the encoder of the bundle '"
                + bundle + "' expects all of them");
        }
        ByteBuffer into = ByteBuffer.wrap(model).order(ByteOrder.LITTLE_ENDIAN);
        tensors.forEach((name, tensor) -> {
            if (!shapes.containsKey(name)) {
                throw new CorruptArtifactError(source + ": the adapter has a tensor '" + name + "', the encoder takes: "
                    + (shapes.isEmpty() ? "none" : String.join(", ", shapes.keySet())) + "; they are of different encoders");
            }
            if (!shapes.get(name).equals(tensor.shape)) {
                throw new CorruptArtifactError(source + ": adapter tensor '" + name + "' has shape " + tensor.shape + ", the encoder takes " + shapes.get(name)
                    + "; they are of different encoders");
            }
            float[] values = tensor.values();
            if (values == null) {
                boolean isFloat = tensor.dtype.equals("F16") || tensor.dtype.equals("F32");
                throw new CorruptArtifactError(source + ": adapter tensor '" + name + (isFloat ? "' holds NaN or infinity" : "' is " + tensor.dtype
                    + ", expected float16 or float32"));
            }
            into.position(places.get(name));
            for (float value : values) into.putFloat(value);
        });
    }
}
