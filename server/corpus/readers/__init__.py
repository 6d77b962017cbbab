"""Reading documents, queries, judgements, sessions and tables from files of many layouts."""
