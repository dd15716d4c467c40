"""Other people's work by name: judges and importers' entries."""
