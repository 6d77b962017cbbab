package pocketquery;

import java.io.File;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;

/** A {@link Database} by JDBC, for apps on a JVM; xerial's sqlite-jdbc is the driver that was tried. On Android see README.md. */
public final class JdbcDatabase implements Database {
    private final Connection connection;

    private JdbcDatabase(Connection connection) {
        this.connection = connection;
    }

    /** Opens a file for reading only, as a {@link Database.Opener}. */
    public static Database open(File file) {
        try {
            return new JdbcDatabase(DriverManager.getConnection("jdbc:sqlite:" + file.toURI() + "?mode=ro&immutable=1"));
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
