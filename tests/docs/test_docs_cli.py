"""docs/cli.md is the command reference of the code. ``python -m tests.docs.test_docs_cli`` writes it."""

from __future__ import annotations

import html
import re
import subprocess
import tempfile
from pathlib import Path

from tests.builders import ROOT

CLI = ROOT / "docs/cli.md"


def command_reference(folder: Path) -> str:
    """The page as Typer writes it, without character references, the option ``--help`` that each
    command has, usages without an argument, lists of commands, which the headings are, and words that
    an earlier command has for the same option. Options take values behind an equals sign."""
    out = folder / "cli.md"
    subprocess.run(
        [
            *("python", "-c", "import typer.cli; typer.cli.main()"),
            *("refract.cli", "utils", "docs", "--name", "refract", "--output", str(out)),
        ],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    text = html.unescape(out.read_text("utf-8")).replace(
        "* `--help`: Show this message and exit.\n", ""
    )
    text = re.sub(r"\*\*Usage\*\*:\n\n```console\n\$ (.*)\n```", r"`\1`", text)
    text = re.sub(r"`refract [a-z -]+ \[OPTIONS\]`\n\n", "", text).replace(" [OPTIONS]", "")
    text = re.sub(r"\*\*(?:Options|Arguments)\*\*:\n\n", "", text)
    text = re.sub(r"\*\*Commands\*\*:\n\n(\* .*\n)+\n", "", text)
    text = re.sub(r"^(\* `--[\w-]+) ", r"\1=", text, flags=re.M)
    text = told_once(text)
    title = "# The command line\n\n<!-- written by `make readme`, checked by the tests -->\n\n"
    return f"{title}#{text}"


def told_once(text: str) -> str:
    """The page with an option's words where they stand first; a later command that has the same option
    refers to that command."""
    first: dict[str, str] = {}
    command = ""
    lines = []
    for line in text.splitlines(keepends=True):
        if line.startswith("#"):
            command = line.strip("#` \n")
        option = re.fullmatch(r"\* `-[^`]*`: (.{40,})\n", line)
        if option and first.setdefault(line, command) != command:
            line = line.replace(option[1], f"As for `{first[line]}`.")
        lines.append(line)
    return "".join(lines)


def test_the_command_reference_is_that_of_the_code(tmp_path):
    assert CLI.read_text("utf-8") == command_reference(tmp_path)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        CLI.write_text(command_reference(Path(temporary)), "utf-8")
