"""Refract measures how often language models refuse, and how far perturbed prompts bend answers."""


def __getattr__(name: str) -> object:
    if name == "load_results":
        from refract.results import load_results

        return load_results
    raise AttributeError(f"module 'refract' has no attribute {name!r}")
