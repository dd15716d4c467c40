"""What a paper takes from results: tables, an appendix, a bundle, records of Every Eval Ever."""
