"""What runs on the server: corpora, teachers and document encoders, their evaluation."""
