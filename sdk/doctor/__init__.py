"""`pocketquery doctor`: are this machine, this installation and these artefacts well?"""
