"""Results for other tools: a paper's tables, records of Every Eval Ever, data files, trackers."""
