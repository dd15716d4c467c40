"""Judges against people, and against each other."""
