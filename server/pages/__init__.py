"""The pages we write: one style, escaping, tables and figures for every report."""
