package pocketquery;

import java.io.File;
import java.util.List;

/**
 * An SQLite file that is read: what Android's {@code SQLiteDatabase} and JDBC's drivers both fill in a few lines, see README.md.
 *
 * <pre>for (Object[] row : database.query("SELECT row FROM documents WHERE id = ?", "d7")) use((Long) row[0]);</pre>
 */
public interface Database extends AutoCloseable {
    /** The rows that a query gives: texts as String, whole numbers as Long, bytes as byte[], null. */
    List<Object[]> query(String sql, String... texts);

    @Override
    void close();

    /** Opens files for reading only. */
    interface Opener {
        Database open(File file);
    }
}
