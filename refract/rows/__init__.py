"""Rows and the files that hold them: JSONL reading and writing, suites, sampling."""
