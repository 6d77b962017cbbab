"""Smaller students: vocabulary and width."""
