"""A setting is declared once: command line, settings file, checks and JSON come from it."""
