"""Logs of other evaluation tools as rows of answers."""
