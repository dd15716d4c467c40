"""What carries a model's work elsewhere: vLLM's engine, batch APIs, parts for machines of a cluster."""
