"""docs/python.md has every public name. ``python -m tests.docs.test_docs_python`` writes the table."""

from __future__ import annotations

import inspect
import re

import refract
from tests.builders import ROOT

PAGE = ROOT / "docs/python.md"
MARK = "<!-- public names: written by `make readme` -->\n"


def python_reference() -> str:
    """Each public name, its arguments and the first sentence of its docstring, as a Markdown table."""
    lines = ["| name | what |", "|---|---|"]
    for module, names in (("refract", refract.__all__), ("refract.checks", refract.checks.__all__)):
        for name in names:
            offered = getattr(refract if module == "refract" else refract.checks, name)
            text = " ".join((inspect.getdoc(offered) or "").split())
            meaning = re.split(r"(?<=\.) |: ", text)[0].rstrip(".")
            meaning = re.sub(r":\w+:`(.*?)`", r"`\1`", meaning).replace("``", "`")
            lines.append(f"| `{module}.{name}{arguments(offered)}` | {meaning} |")
    return "\n".join(lines)


def arguments(offered: object) -> str:
    """A function's parameters with their defaults, and without types; nothing of other things."""
    if not inspect.isfunction(offered):
        return ""
    signature = inspect.signature(offered)
    bare = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in signature.parameters.values()
    ]
    untyped = signature.replace(parameters=bare, return_annotation=inspect.Signature.empty)
    return str(untyped).replace("|", r"\|")


def page(text: str) -> str:
    start = text.index(MARK) + len(MARK)
    return f"{text[:start]}\n{python_reference()}\n\n{text[text.index('<!-- end -->', start) :]}"


def test_the_reference_of_python_is_that_of_the_code():
    text = PAGE.read_text("utf-8")
    assert text == page(text)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
