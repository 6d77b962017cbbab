"""Rounds carried out: devices asked, dropped out or heard, stage by stage; and the journal."""
