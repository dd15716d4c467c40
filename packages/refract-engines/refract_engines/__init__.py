"""What carries a model's work elsewhere: actors of Ray, vLLM's engine, parts for machines of a
cluster."""
