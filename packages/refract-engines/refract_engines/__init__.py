"""What carries a model's work elsewhere: batch APIs, parts for machines of a cluster."""
