package pocketquery;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/** The fields of a protobuf message, one after the other; a length is checked before it is followed. Throws IllegalArgumentException. */
final class Protobuf {
    static final int VARINT = 0, BYTES = 2, FIXED32 = 5;
    final byte[] data;
    /** Of the present field: its number, how it is written, its value where that is a varint, else where its bytes are. */
    int number, wire;
    long value;
    int begin, stop;
    private final int end;
    private int at;

    Protobuf(byte[] data) {
        this(data, 0, data.length);
    }

    private Protobuf(byte[] data, int begin, int end) {
        this.data = data;
        this.at = begin;
        this.end = end;
    }

    /** The message in the present field. */
    Protobuf inside() {
        return new Protobuf(data, begin, stop);
    }

    /** Goes to the next field; false where there is none. */
    boolean next() {
        if (at >= end) return false;
        long tag = varint();
        wire = (int) tag & 7;
        if (tag < 8 || tag > 0xffffffffL || wire != VARINT && wire != 1 && wire != BYTES && wire != FIXED32) {
            throw new IllegalArgumentException("a field of kind " + (tag & 7));
        }
        number = (int) (tag >>> 3);
        value = wire == VARINT || wire == BYTES ? varint() : wire == 1 ? 8 : 4;
        long length = wire == VARINT ? 0 : value;
        if (length < 0 || length > end - at) throw new IllegalArgumentException("a message that is cut");
        begin = at;
        stop = at += (int) length;
        return true;
    }

    String text() {
        try {
            return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(data, begin, stop - begin)).toString();
        } catch (CharacterCodingException error) {
            throw new IllegalArgumentException("a text that is no UTF-8");
        }
    }

    /** The values of a repeated number: one of them, or all, packed. */
    List<Long> numbers() {
        List<Long> made = new ArrayList<>();
        if (wire == VARINT) made.add(value);
        for (Protobuf packed = inside(); packed.at < packed.end; ) made.add(packed.varint());
        return made;
    }

    float float32() {
        return ByteBuffer.wrap(data).order(ByteOrder.LITTLE_ENDIAN).getFloat(begin);
    }

    private long varint() {
        long made = 0;
        for (int shift = 0; shift < 70; shift += 7) {
            if (at >= end) throw new IllegalArgumentException("a message that is cut");
            int one = data[at++];
            if (shift == 63 && (one & 0x7f) > 1) break;
            made |= (long) (one & 0x7f) << shift;
            if (one >= 0) return made;
        }
        throw new IllegalArgumentException("a number of more than 64 bits");
    }
}
