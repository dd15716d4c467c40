"""Exact answers of local models: the same tokens on every machine, with a certificate.

All modules but ``command`` and ``verification`` import torch: import these only where a model is
about to run."""
