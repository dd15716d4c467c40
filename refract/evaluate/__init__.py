"""From suites and a model to results."""
