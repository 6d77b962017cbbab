"""Recipes of the built-in query encoders: texts, settings, model card."""
