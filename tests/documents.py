"""The documentation as tests read it: fenced blocks, the commands in them, what they should print."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from tests.builders import ROOT

FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\S*)\n(?P<text>.*?)^(?P=indent)```$", re.M | re.S
)
# "…in `params.yaml`:" before a block says which file the block is, or is added to.
NAMED = re.compile(r"`(?P<file>[\w./-]+\.\w+)`[^`]*:\s*\Z")
# In an output that is shown, any text; alone on a line, any lines.
ANYTHING = "…"


class Block(NamedTuple):
    """A fenced block: its page, language, text without the fence, and the file named before it."""

    page: Path
    language: str
    text: str
    file: str | None


class Command(NamedTuple):
    """A command of a console block, and the output shown under it ("" where none is)."""

    page: Path
    line: str
    output: str
    first: str  # the line as it stands in the page, or the first of several


def pages() -> list[Path]:
    """Every page that people read."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    found += sorted((ROOT / "packages").rglob("*.md"))
    return [page for page in found if "tests" not in page.parts]


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    text = page.read_text("utf-8")
    found = []
    for match in FENCE.finditer(text):
        indent = match["indent"]
        inner = re.sub(f"^{indent}", "", match["text"], flags=re.M)
        named = NAMED.search(text[: match.start()].rstrip(" "))
        found.append(Block(page, match["language"], inner, named and named["file"]))
    return found


def commands(block: Block) -> list[Command]:
    """The commands of a console block: the lines after ``$``, or every line where none has one."""
    lines = block.text.splitlines()
    prompts = any(line.startswith("$ ") for line in lines)
    found: list[list[str]] = []
    continued = False
    for line in lines:
        if continued:
            found[-1][0] = found[-1][0][:-1] + line
        elif line.startswith("$ ") or not prompts:
            found.append([line.removeprefix("$ "), line])
        else:
            found[-1].append(line)
        continued = found[-1][0].endswith("\\") and len(found[-1]) == 2
    return [
        Command(block.page, line, "\n".join(output).strip("\n"), first)
        for line, first, *output in found
        if line.strip()
    ]


def matches(shown: str, printed: str) -> bool:
    """Whether what a command printed is what the page shows, but for what the page leaves open."""
    parts = []
    for line in shown.splitlines():
        if line.strip() == ANYTHING:
            parts.append(r"(?:.*\n)*?")
        else:
            inner = ".*".join(map(re.escape, line.rstrip().split(ANYTHING)))
            parts.append(inner + r"\n")
    lines = "".join(f"{line.rstrip()}\n" for line in printed.strip("\n").splitlines())
    return re.fullmatch("".join(parts), lines) is not None
