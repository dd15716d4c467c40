"""Texts of others by reference: where they stand, their SHA-256, and getting them."""
