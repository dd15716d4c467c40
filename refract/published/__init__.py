"""Other people's work by name: judges, protocols, importers' entries, papers.

Nothing imports this package; registries name what is in it."""
