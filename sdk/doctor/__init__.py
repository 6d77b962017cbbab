"""`pocketquery doctor`: check this machine, this installation and these artefacts."""
