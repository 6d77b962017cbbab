"""A round: devices asked, dropped out or heard, their replies summed; and its journal."""
