"""Other people's work by name: judges, importers' entries, protocols."""
