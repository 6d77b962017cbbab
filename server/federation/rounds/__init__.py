"""A round: opened, fed with replies, closed into the next state; and its journal."""
