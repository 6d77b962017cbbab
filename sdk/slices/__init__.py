"""Parts of an index for those who may have them, and what changed in them since."""
