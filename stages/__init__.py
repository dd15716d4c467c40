"""Refract's stages. No stage needs anything of this file; it offers the loader of results."""


def __getattr__(name: str) -> object:
    if name == "load_results":
        from stages.results import load_results

        return load_results
    raise AttributeError(f"module 'stages' has no attribute {name!r}")
