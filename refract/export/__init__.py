"""Results in the formats of others."""
