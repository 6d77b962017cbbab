package pocketquery;

import ai.onnxruntime.OnnxTensor;
import ai.onnxruntime.OrtEnvironment;
import ai.onnxruntime.OrtException;
import ai.onnxruntime.OrtLoggingLevel;
import ai.onnxruntime.OrtSession;
import java.nio.LongBuffer;
import java.util.Map;
import java.util.Set;
import pocketquery.PocketQueryException.CorruptArtifactError;

/**
 * A session of onnxruntime on {@code encoder.onnx}; its jar is the app's: {@code com.microsoft.onnxruntime:onnxruntime-android}, or
 * {@code onnxruntime} on a JVM.
 *
 * <pre>QueryEncoder encoder = new BundleEncoder(bundle, OnnxGraph::new);</pre>
 */
public final class OnnxGraph implements BundleEncoder.Graph {
    private static final String OUTPUT = "sentence_embedding";
    private final OrtEnvironment environment = OrtEnvironment.getEnvironment();
    private final OrtSession session;

    /** Throws CorruptArtifactError: onnxruntime cannot load the model. */
    public OnnxGraph(byte[] model) {
        try (OrtSession.SessionOptions options = new OrtSession.SessionOptions()) {
            options.setIntraOpNumThreads(1);
            options.setSessionLogLevel(OrtLoggingLevel.ORT_LOGGING_LEVEL_FATAL);
            session = environment.createSession(model, options);
        } catch (OrtException error) {
            throw new CorruptArtifactError(error.getMessage());
        }
    }

    @Override
    public float[] run(long[] ids, long[] mask) {
        long[] shape = {1, ids.length};
        try (OnnxTensor given = OnnxTensor.createTensor(environment, LongBuffer.wrap(ids), shape);
            OnnxTensor ones = OnnxTensor.createTensor(environment, LongBuffer.wrap(mask), shape);
            OrtSession.Result result = session.run(Map.of("input_ids", given, "attention_mask", ones), Set.of(OUTPUT))) {
            return ((float[][]) result.get(0).getValue())[0];
        } catch (OrtException error) {
            throw new CorruptArtifactError(error.getMessage());
        }
    }

    @Override
    public void close() {
        try {
            session.close();
        } catch (OrtException error) {
            throw new IllegalStateException(error);
        }
    }
}
