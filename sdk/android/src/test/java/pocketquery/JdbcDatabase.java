package pocketquery;

import java.io.File;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import org.sqlite.SQLiteConfig;

/** A {@link Database} by xerial's sqlite-jdbc, for tests and for apps on a JVM. */
public final class JdbcDatabase implements Database {
    private final Connection connection;

    private JdbcDatabase(Connection connection) {
        this.connection = connection;
    }

    /** Opens a file for reading only, as an {@link Database.Opener}. */
    public static Database open(File file) {
        SQLiteConfig config = new SQLiteConfig();
        config.setReadOnly(true);
        try {
            return new JdbcDatabase(config.createConnection("jdbc:sqlite:" + file.toURI().toString().replaceFirst("^file:", "file:") + "?immutable=1"));
        } catch (SQLException error) {
            throw new IllegalStateException(error.getMessage(), error);
        }
    }

    @Override
    public List<Object[]> query(String sql, String... texts) {
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            for (int i = 0; i < texts.length; i++) statement.setString(i + 1, texts[i]);
            List<Object[]> rows = new ArrayList<>();
            try (ResultSet found = statement.executeQuery()) {
                int columns = found.getMetaData().getColumnCount();
                while (found.next()) {
                    Object[] row = new Object[columns];
                    for (int i = 0; i < columns; i++) {
                        Object value = found.getObject(i + 1);
                        row[i] = value instanceof Integer ? (Object) ((Integer) value).longValue() : value;
                    }
                    rows.add(row);
                }
            }
            return rows;
        } catch (SQLException error) {
            throw new IllegalStateException(error.getMessage(), error);
        }
    }

    @Override
    public void close() {
        try {
            connection.close();
        } catch (SQLException error) {
            throw new IllegalStateException(error.getMessage(), error);
        }
    }
}
