package pocketquery;

import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.zip.CRC32;
import pocketquery.PocketQueryException.ArtifactError;
import pocketquery.PocketQueryException.ArtifactNotFoundError;
import pocketquery.PocketQueryException.CorruptArtifactError;

/** Named files of a folder, or of a zip without compression; only plain files are read, and no more than is asked for. */
final class Source {
    private static final int END = 22, ENTRY = 46, LOCAL = 30;
    final File place;
    private final Map<String, long[]> entries; // of a zip: where a file begins, its bytes, its check sum; null for a folder

    Source(File place) {
        this.place = place;
        if (!place.exists()) throw new ArtifactNotFoundError(place + ": nothing is there, expected a bundle's folder or zip");
        entries = place.isDirectory() ? null : new HashMap<>();
        if (entries != null) readDirectory(plain(place.toPath(), (1L << 31) - 1));
    }

    /** The size of a file; -1 where it is not there. */
    long size(String name) {
        if (entries != null) return entries.containsKey(name) ? entries.get(name)[1] : -1;
        return checked(new File(place, name).toPath()) ? new File(place, name).length() : -1;
    }

    /** A file, or its first {@code limit} bytes where it is longer. */
    byte[] read(String name, long limit) {
        if (entries == null) return plain(new File(place, name).toPath(), limit);
        long[] entry = entries.get(name);
        if (entry == null) throw new ArtifactNotFoundError(place + ": " + name + " is missing");
        byte[] data = new byte[(int) Math.min(limit, entry[1])];
        try (RandomAccessFile file = new RandomAccessFile(place, "r")) {
            file.seek(entry[0]);
            file.readFully(data);
        } catch (IOException error) {
            throw new CorruptArtifactError(place + ": " + name + " cannot be unzipped: the zip was cut");
        }
        CRC32 sum = new CRC32();
        sum.update(data, 0, data.length);
        if (data.length < entry[1] || sum.getValue() == entry[2]) return data;
        throw new CorruptArtifactError(place + ": " + name + " cannot be unzipped: its check sum differs from the zip's");
    }

    /** The bytes of a plain file, or of a link to one. */
    static byte[] plain(Path path, long limit) {
        if (!checked(path)) throw new ArtifactNotFoundError(path + " is missing");
        ByteArrayOutputStream made = new ByteArrayOutputStream();
        try (InputStream stream = Files.newInputStream(path)) {
            byte[] buffer = new byte[1 << 16];
            for (int count; made.size() < limit && (count = stream.read(buffer, 0, (int) Math.min(buffer.length, limit - made.size()))) >= 0; ) {
                made.write(buffer, 0, count);
            }
        } catch (NoSuchFileException error) {
            throw new ArtifactNotFoundError(path + " is missing");
        } catch (IOException error) {
            throw new ArtifactError(path + " cannot be read: " + error.getMessage());
        }
        return made.toByteArray();
    }

    /** Whether a plain file is there; throws where it is something else. */
    static boolean checked(Path path) {
        if (!Files.exists(path)) return false;
        if (Files.isRegularFile(path)) return true;
        throw new CorruptArtifactError(path + ": found " + (Files.isDirectory(path) ? "a folder" : "a pipe, a device or a socket") + ", expected a plain file");
    }

    private void readDirectory(byte[] data) {
        ByteBuffer file = ByteBuffer.wrap(data).order(ByteOrder.LITTLE_ENDIAN);
        int end = data.length - END;
        while (end >= 0 && file.getInt(end) != 0x06054b50) end--;
        if (end < 0) throw refuse("found no directory at its end; it is truncated or no zip");
        if (end + END + u16(file, end + 20) != data.length) throw refuse("its comment does not end where it does; it is truncated");
        int count = u16(file, end + 10);
        long length = u32(file, end + 12);
        long begin = u32(file, end + 16);
        if (file.getInt(end + 4) != 0 || u16(file, end + 8) != count || begin == 0xffffffffL || count == 0xffff) {
            throw refuse("it is of several parts or of 64 bits, expected a plain one");
        }
        if (count > 256 || length > 1 << 18) throw refuse("it lists " + count + " files in " + length + " bytes, expected at most 256 in 262144");
        if (begin + length != end) throw refuse("its directory is not where the end says; it is truncated or was changed");
        List<long[]> spans = new ArrayList<>();
        int at = (int) begin;
        for (int i = 0; i < count; i++) at = readEntry(file, at, (int) begin, end, spans);
        if (at != end) throw refuse("its directory has " + (end - at) + " bytes more than its files take");
        spans.sort((a, b) -> Long.compare(a[0], b[0]));
        for (int i = 1; i < spans.size(); i++) if (spans.get(i)[0] < spans.get(i - 1)[1]) throw refuse("a file lies over another");
    }

    private int readEntry(ByteBuffer file, int at, int begin, int end, List<long[]> spans) {
        if (at + ENTRY > end || file.getInt(at) != 0x02014b50) throw refuse("its directory is broken");
        int flags = u16(file, at + 8);
        int names = u16(file, at + 28);
        long size = u32(file, at + 24);
        int next = at + ENTRY + names + u16(file, at + 30) + u16(file, at + 32);
        if (next > end || u16(file, at + 34) != 0) throw refuse("its directory is broken");
        byte[] raw = Arrays.copyOfRange(file.array(), at + ENTRY, at + ENTRY + names);
        String name = new String(raw, (flags & 1 << 11) != 0 ? StandardCharsets.UTF_8 : Charset.forName("ISO-8859-1"));
        if (name.matches("(?s)[/\\\\].*|.*[:\0\ufffd].*") || Arrays.asList(name.replace('\\', '/').split("/")).contains("..")) {
            throw refuse("it names '" + Text.shortened(name) + "', expected names inside the folder only");
        }
        if ((flags & (1 | 1 << 13)) != 0) throw refuse("'" + name + "' is encrypted, expected it plain");
        if (u16(file, at + 10) != 0) {
            throw refuse("'" + name + "' is compressed (method " + u16(file, at + 10) + "), expected it stored as it is; pack the folder again with"
                + " pocketquery export --zip, or with: zip -0");
        }
        if (u32(file, at + 20) != size) throw refuse("'" + name + "' has " + u32(file, at + 20) + " bytes for " + size + ", expected as many");
        long header = u32(file, at + 42);
        if (header + LOCAL + names > file.capacity()) throw refuse("'" + name + "' begins behind its end; it is truncated");
        int local = (int) header;
        boolean isSame = file.getInt(local) == 0x04034b50 && u16(file, local + 8) == 0 && (u16(file, local + 6) & (1 | 1 << 13)) == 0
            && Arrays.equals(raw, Arrays.copyOfRange(file.array(), local + LOCAL, local + LOCAL + names)) && u16(file, local + 26) == names;
        boolean isZero = (u16(file, local + 6) & 8) != 0;
        boolean isDescribed = true;
        for (int i = 0; i < 12; i += 4) {
            isZero &= file.getInt(local + 14 + i) == 0;
            isDescribed &= file.getInt(local + 14 + i) == file.getInt(at + 16 + i);
        }
        if (!isSame || !isZero && !isDescribed) throw refuse("'" + name + "' is described otherwise where it lies than in the directory");
        long start = header + LOCAL + names + u16(file, local + 28);
        if (start + size > begin) throw refuse("'" + name + "' reaches into the directory");
        if (entries.put(name, new long[] {start, size, u32(file, at + 16)}) != null) throw refuse("it holds '" + name + "' twice, expected once");
        spans.add(new long[] {header, start + size});
        return next;
    }

    private CorruptArtifactError refuse(String what) {
        return new CorruptArtifactError(place + ": not a readable zip: " + what);
    }

    private static int u16(ByteBuffer file, int at) {
        return file.getShort(at) & 0xffff;
    }

    private static long u32(ByteBuffer file, int at) {
        return file.getInt(at) & 0xffffffffL;
    }
}
