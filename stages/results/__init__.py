"""results: where numbers stand, and how to read them."""
