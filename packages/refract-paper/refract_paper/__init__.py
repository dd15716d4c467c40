"""What a paper takes from results: tables, an appendix, a bundle."""
