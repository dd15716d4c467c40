"""Intervals, tests and corrections for rates: pure functions on counts and sequences."""
