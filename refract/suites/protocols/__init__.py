"""Protocols of published benchmarks by name: how answers are generated, judged and counted."""
