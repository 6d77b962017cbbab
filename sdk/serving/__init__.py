"""An index served to other programs of its user's machine: assistants, and the browser."""
