"""What carries a model's work elsewhere: actors of Ray, vLLM's engine, parts for
machines of a cluster.

Nothing imports these modules: they are found by name, as those of other packages are.
"""
