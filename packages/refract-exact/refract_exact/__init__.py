"""Exact answers of local models: the same tokens on every machine, with a certificate."""
