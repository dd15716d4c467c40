"""What every part stands on: words, rows, errors, settings, params.yaml, progress."""
