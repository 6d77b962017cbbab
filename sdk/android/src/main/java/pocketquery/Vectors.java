package pocketquery;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.zip.CRC32;
import pocketquery.PocketQueryException.CorruptArtifactError;
import pocketquery.PocketQueryException.InvalidInputError;
import pocketquery.PocketQueryException.UnsupportedVersionError;

/** The rows of a vector file, and the products of a query with them. */
final class Vectors {
    private static final int HEADER = 64;
    final int dimension, count;
    final float[] scales;
    private final byte[] data;

    Vectors(byte[] data, int dimension, int count, String path) {
        this.data = data;
        this.dimension = dimension;
        this.count = count;
        long expected = HEADER + (long) count * (dimension + 4);
        if (data.length < expected) {
            throw new CorruptArtifactError(path + " has " + data.length + " bytes, expected at least " + expected + " for " + count
                + " vectors of dimension " + dimension + ": it is truncated. Build the index again or copy it anew");
        }
        ByteBuffer file = ByteBuffer.wrap(data).order(ByteOrder.LITTLE_ENDIAN);
        if (file.getLong(0) != 0x524f544345565150L) throw new CorruptArtifactError(path + " is not a vector file: it does not begin with b'PQVECTOR'");
        CRC32 sum = new CRC32();
        sum.update(data, 0, HEADER - 4);
        if (file.getInt(HEADER - 4) != (int) sum.getValue()) throw new CorruptArtifactError(path + " has a damaged header; copy the index anew");
        if (file.getInt(8) != 1) throw new UnsupportedVersionError(path + " is of version " + file.getInt(8) + ", this release reads up to 1; upgrade pocketquery");
        if (file.getInt(12) != dimension) {
            throw new CorruptArtifactError(path + " holds vectors of dimension " + file.getInt(12) + ", the index says " + dimension
                + "; files of two indexes were mixed, copy it anew");
        }
        scales = new float[count];
        for (int row = 0; row < count; row++) {
            int start = start(row);
            scales[row] = file.getFloat(start + dimension);
            boolean isEmpty = scales[row] == 0;
            for (int i = 0; isEmpty && i < dimension; i++) isEmpty = data[start + i] == (byte) 128;
            if (!isEmpty && !(scales[row] > 0 && scales[row] <= 1.001 / 127)) {
                throw new CorruptArtifactError(path + " was changed after it was written: a row's scale is not above 0 and at most 0.00788, so its scores"
                    + " would mean nothing. Copy the index anew or build it again");
            }
        }
    }

    int start(int row) {
        return HEADER + row * (dimension + 4);
    }

    String sha256(int first, int rows) {
        return Text.sha256(data, start(first), rows * (dimension + 4));
    }

    /** A query as whole numbers of 24 bits, in two halves whose products with a row fit in 32 bits each. */
    final class Query {
        private final int[] high = new int[dimension], low = new int[dimension];
        final double unit;

        Query(float[] vector) {
            if (vector.length != dimension) throw new InvalidInputError("the query's vector has shape (" + vector.length + ",), expected (" + dimension
                + ",), the index's dimension; pass one vector, by an encoder of the index's space");
            double squares = 0;
            for (float one : vector) squares += (double) one * one;
            double length = Math.sqrt(squares);
            if (!(length > 0) || Double.isInfinite(length)) throw new InvalidInputError("the query's vector has no direction: it is all zeros or not finite");
            float most = 0;
            float[] values = new float[dimension];
            for (int i = 0; i < dimension; i++) most = Math.max(most, Math.abs(values[i] = (float) (vector[i] / length)));
            unit = Math.max((double) most, 1e-30) / (1 << 23);
            for (int i = 0; i < dimension; i++) {
                int code = (int) Math.rint(values[i] / unit);
                high[i] = code >> 12;
                low[i] = code & 0xfff;
            }
        }

        double cosine(int row) {
            int start = start(row);
            long sum = 0;
            for (int from = 0; from < dimension; from += 2048) { // so that no half's sum leaves 32 bits
                int a = 0;
                int b = 0;
                for (int i = from, to = Math.min(dimension, from + 2048); i < to; i++) {
                    int code = (data[start + i] & 0xff) - 128;
                    a += code * high[i];
                    b += code * low[i];
                }
                sum += ((long) a << 12) + b;
            }
            return sum * (double) scales[row] * unit;
        }

        /** The product with a vector. */
        double cosine(double[] vector) {
            double[] products = new double[dimension];
            for (int i = 0; i < dimension; i++) products[i] = (((long) high[i] << 12) + low[i]) * vector[i];
            return sum(products, 0, dimension) * unit;
        }
    }

    /** In the order of numpy's sums. */
    private static double sum(double[] values, int from, int to) {
        int size = to - from;
        if (size > 128) {
            int half = size / 2 / 8 * 8;
            return sum(values, from, from + half) + sum(values, from + half, to);
        }
        double total = 0;
        int whole = size / 8 * 8;
        double[] columns = new double[8];
        for (int i = 0; i < whole; i++) columns[i % 8] += values[from + i];
        if (whole > 0) total = columns[0] + columns[1] + (columns[2] + columns[3]) + (columns[4] + columns[5] + (columns[6] + columns[7]));
        for (int i = from + whole; i < to; i++) total += values[i];
        return total;
    }
}
