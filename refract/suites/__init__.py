"""What becomes prompts: suites, importers, perturbations."""
