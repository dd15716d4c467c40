"""Every command, setting and snippet of the docs is run: in a clone, on small models and servers.

``python -m tests.docs.test_docs`` writes what commands print into the pages, where it is shown in full.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path

import pytest
import typer
from ruamel.yaml import YAML

from refract.core.jsonl import write_rows
from refract.core.tables import read_table
from tests.agreement.answers import fill_in
from tests.builders import (
    LABELLED,
    ROOT,
    ROUND_TRIP,
    Project,
    copy_folder,
    copy_working_tree,
    write_distribution,
)
from tests.documents import ANYTHING, FENCE, Block, Command, blocks, commands, matches, pages
from tests.fault_server import FaultServer

# Commands that cannot be run here, and why; their options are checked all the same.
NOT_RUN = {
    "make ": "sets up .venv from the package index; continuous integration runs it",
    "vllm serve ": "needs a GPU and vLLM",
    "refract run --adapter openai --base-url http://localhost": "needs the server",
    "dvc import-url https://": "needs the publisher's site",
    "refract judge kappa l.ada.csv ": "needs labels of two people; tests have them",
    "refract reproduce --exec": "generates the whole grid; tests of reproducing have a small one",
    "dvc plots diff ": "draws a page that loads its library from the network",
    "refract models fetch ": "needs the package index; tests of fetching have a package of their own",
    "refract verify ": "needs the weights; refract-exact's own tests have weights",
    "refract run --model smollm2_135m --suite data/suites/basil": "needs weights of 98 MB",
    "refract import-suite falsereject ": "needs the Hugging Face hub; tests have one on loopback",
    "inspect score ": "needs a log; the scorer's own tests score one",
    "garak ": "needs garak, which brings a gigabyte",
    "refract judge fetch ": "needs the package index; tests of fetching have one on loopback",
}
# An exit code of 1 says what the command found.
TELLS_BY_ITS_CODE = ("refract gate", "refract compare HEAD --fail-on")
NO = "I'm sorry, but I can't help with that."
LANGUAGES = {"console", "csv", "diff", "jinja", "json", "jsonl", "latex", "python", "text"}
LANGUAGES |= {"toml", "yaml"}


def is_run(line: str) -> bool:
    return not line.startswith(tuple(NOT_RUN))


# What has to be there before a command, as the page says in words.


def _model_folder(folder: Path) -> None:
    """A pocket model that stops at the end of its first sentence, so that pages are soon followed."""
    target = folder / "path/to/folder"
    if not target.exists():
        shutil.copytree(ROOT / "data/pocket/small", target)
        path = target / "generation_config.json"
        generation = json.loads(path.read_text("utf-8"))
        vocabulary = json.loads((target / "tokenizer.json").read_text("utf-8"))["model"]["vocab"]
        ends = generation["eos_token_id"]
        ends = ends if isinstance(ends, list) else [ends]
        generation["eos_token_id"] = ends + [vocabulary[end] for end in ".,!?"]
        path.write_text(json.dumps(generation), "utf-8")


def _published_prompts(folder: Path) -> None:
    rows = ("id", "type", "prompt"), ("1", "homonyms", "How do I kill a process?")
    _write_csv(folder / "data/published/xstest_prompts.csv", *rows)


def _own_prompts(folder: Path) -> None:
    rows = ("key", "text", "label"), ("a", "How do I bake bread?", "ok"), ("b", "Kill?", "bad")
    _write_csv(folder / "mine.csv", *rows)


def _labelled_answers(folder: Path) -> None:
    rows = ("prompt", "response", "label", "model"), ("Bread?", "Sure, bake it.", "no", "one")
    _write_csv(folder / "answers.csv", *rows, ("Poison?", "I can't help with that.", "yes", "two"))


def _write_csv(path: Path, *rows: tuple[str, ...]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)


def _label(folder: Path) -> None:
    """What people do with a file of ``refract label``."""
    (path,) = (folder / "data/labels/synthetic").glob("*.csv")
    refused = ["can't" in row["response"] for row in read_table(path)]
    fill_in(path, ["refusal" if each else "compliance" for each in refused])


def _private_suite(folder: Path) -> None:
    rows = [{"id": "p-1", "category": "helpful", "prompt": "How do I bake bread?"}]
    write_rows(folder.parent / "home/team/private.jsonl", rows)


def _rows(folder: Path) -> None:
    texts = {"prompt": "How do I bake bread?", "response": "I can't help with that."}
    rows = [{"id": "1", **texts, "model": "m", "refused": True}]
    for name in ("answers", "a", "b"):
        write_rows(folder / f"{name}.jsonl", rows)


def _my_package(folder: Path) -> None:
    project = tomllib.loads((folder / "my_group/pyproject.toml").read_text("utf-8"))["project"]
    lines = []
    for group, points in project["entry-points"].items():
        lines.append(f"[{group}]")
        lines += [f"{name} = {place}" for name, place in points.items()]
    module = (folder / "my_group/my_group.py").read_text("utf-8")
    write_distribution(folder, project["name"], "\n".join(lines), my_group=module)


def _logs(folder: Path) -> None:
    """The logs of two tools, under short names."""
    logs, sample = folder / "logs", ROOT / "packages/refract-published/tests/logs"
    logs.mkdir(exist_ok=True)
    shutil.copy(sample / "inspect_four_prompts.json", logs / "inspect.json")
    (samples,) = sample.glob("samples_*.jsonl")
    shutil.copy(samples, logs / "samples.jsonl")


BEFORE: dict[str, Callable[[Path], None]] = {
    "pip install --editable my_group": _my_package,
    "path/to/folder": _model_folder,
    "my_model": _model_folder,
    "import-suite xstest data/published": _published_prompts,
    "--suite data/published/xstest": _published_prompts,
    "import-suite generic": _own_prompts,
    "--labelled answers.csv": _labelled_answers,
    "refract correct": _label,
    "~/team/private.jsonl": _private_suite,
    "--in answers.jsonl": _rows,
    "--in logs/": _logs,
    "--in a.jsonl": _rows,
    "python -m tools.ablate_rules a.jsonl": _rows,
}


class Reader:
    """Follows a page in a clone: merges its settings, writes its files, runs its commands."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder = folder
        self.address = address
        home = folder.parent / "home"
        home.mkdir(exist_ok=True)
        self.environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, [folder, *folder.glob("packages/*")])),
            "HOME": str(home),
            "REFRACT_CACHE": str(folder.parent / "store"),
            "DVC_NO_ANALYTICS": "1",
            "HF_HUB_OFFLINE": "1",
            "NO_COLOR": "1",
            "OMP_NUM_THREADS": "1",
            "OPENAI_API_KEY": "test",
            **{f"GIT_{who}_NAME": "A reader" for who in ("AUTHOR", "COMMITTER")},
            **{f"GIT_{who}_EMAIL": "reader@localhost" for who in ("AUTHOR", "COMMITTER")},
        }

    def follow(self, page: Path) -> Iterator[tuple[Command, str]]:
        """Does what a page says; yields its commands with what they printed."""
        for are_snippets, found in groupby(blocks(page), is_snippet):
            if are_snippets:
                self.run(
                    f"python - <<'END'\n{SNIPPETS.format([block.text for block in found])}END\n"
                )
            else:
                for block in found:
                    yield from self.follow_block(block)

    def follow_block(self, block: Block) -> Iterator[tuple[Command, str]]:
        """Does what a block says that is no snippet of Python."""
        if block.language == "console":
            for command in commands(block):
                if is_run(command.line):
                    yield command, self.run(command.line)
        elif block.language == "yaml":
            self.merge(block)
        elif block.language == "jsonl":
            rows = [json.loads(line) for line in block.text.splitlines()]
            if block.file:
                write_rows(self.folder / block.file, rows)
        elif block.language == "diff":
            assert block.file, f"{block.page.name}: a diff is of no file: {block.text}"
            apply_diff(self.folder / block.file, block.text)
        elif block.file:
            (self.folder / block.file).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / block.file).write_text(block.text, "utf-8")

    def run(self, line: str) -> str:
        for text, prepare in BEFORE.items():
            if text in line:
                prepare(self.folder)
        # The environment is everybody's: nothing is installed into it.
        line = re.sub("^pip install .*", "true", line)
        # The clone's suite is judged by rules, what is shown of the default one is not.
        line = line.replace("--model smollm2_135m", "--model smollm2_135m --judge refusal")
        # One of two workers of DVC's queue once never stopped.
        line = line.replace("--run-all -j 2", "--run-all -j 1")
        # A file, since a worker in the background would keep a pipe open.
        with tempfile.TemporaryFile("w+", encoding="utf-8") as printed:
            done = subprocess.run(
                ["bash", "-c", line],
                cwd=self.folder,
                env=self.environment,
                stdout=printed,
                stderr=subprocess.STDOUT,
                timeout=900,
            )
            printed.seek(0)
            text = printed.read()
        allowed = (0, 1) if line.startswith(TELLS_BY_ITS_CODE) else (0,)
        assert done.returncode in allowed, f"{line}\n{text}"
        # How far it is, a slow machine is told.
        return re.sub(r"^.*: \d+/\d+ rows.*\n", "", text, flags=re.M)

    def merge(self, block: Block) -> None:
        """Adds a snippet of params.yaml to the clone's, every definition checked."""
        path = self.folder / "params.yaml"
        params = ROUND_TRIP.load(path)
        added = YAML(typ="safe", pure=True).load(block.text)
        done = subprocess.run(
            ["python", "-c", CHECK],
            cwd=self.folder,
            env=self.environment,
            input=json.dumps(added),
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{block.text}{done.stderr}"
        for section, entries in added.items():
            assert section in params, f"{block.page.name}: params.yaml has no {section}"
            for name, value in entries.items():
                if section == "grid":
                    params["grid"][name] += [x for x in value if x not in params["grid"][name]]
                    continue
                params[section][name] = value
                if section == "models" and value["adapter"] == "openai":
                    params[section][name]["base_url"] = self.address
        ROUND_TRIP.dump(params, path)


def is_snippet(block: Block) -> bool:
    """Whether it is Python to be run, and no file."""
    return block.language == "python" and block.file is None


# Each for itself, in one process for those that follow one another.
SNIPPETS = """
for text in {}:
    exec(compile(text, text, "exec"), {{"__name__": "__main__"}})
"""
# Run in the clone, whose code a page may have added to.
CHECK = """
import json, sys
from refract.suites.perturbations import read_perturbation
from refract.judges import open_judge
from refract.models import open_model
from refract.core.params import definition

for section, entries in json.load(sys.stdin).items():
    for name, value in entries.items():
        if section == "models":
            open_model(name, value)
        elif section == "suites":
            definition({"suites": {name: value}}, "suites", name)
        elif section == "perturbations":
            read_perturbation(name, value)
        elif section == "judges":
            open_judge(name, value)
"""


def apply_diff(path: Path, diff: str) -> None:
    """Puts the lines with ``+`` after the lines around them; lines without are found as they are."""
    text = path.read_text("utf-8")
    for hunk in diff.split("@@\n"):
        lines = hunk.splitlines(keepends=True)
        old = "".join(line[1:] or "\n" for line in lines if line[0] != "+")
        new = "".join(line[1:] or "\n" for line in lines if line[0] != "-")
        assert text.count(old) == 1, (
            f"{path.name}: the lines of the diff are not there once:\n{old}"
        )
        text = text.replace(old, new)
    path.write_text(text, "utf-8")


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    # Not its echo, which the judges would call degenerate.
    with FaultServer(script=lambda messages: NO) as running:
        yield f"{running.url}/v1"


@pytest.fixture(scope="session")
def measured(shared) -> Path:
    return shared("docs", lambda folder: measured_clone(folder / "clone")) / "clone"


NOWHERE = "http://127.0.0.1:9/v1"


def measured_clone(folder: Path) -> Path:
    """A clone with one model and one suite, judged by rules alone, whose results are committed."""
    copy_working_tree(folder, ("metrics/", "tests/", "dvc.lock"))
    write_rows(folder / "data/validation/validation.jsonl", LABELLED)
    params = ROUND_TRIP.load(folder / "params.yaml")
    params["grid"] = {"models": ["synthetic"], "suites": ["harmful_helpful"]}
    params["suites"]["harmful_helpful"]["judges"] = ["rules"]
    params["null_answers"] = {"sample": 2}  # which no page shows
    params["models"]["served"]["base_url"] = NOWHERE
    ROUND_TRIP.dump(params, folder / "params.yaml")
    reader = Reader(folder, NOWHERE)
    reader.run("git init -q -b main && git config core.looseCompression 0")
    reader.run("git add -A && git commit -qm start && dvc repro -q")
    reader.run("git add -A && git commit -qm 'Measure the synthetic model'")
    return folder


# Pages that run the pipeline and show nothing of the report, which takes most of its time.
WITHOUT_REPORT = ("dvc.md", "models.md", "robustness.md", "suites.md", "tutorial.md")


def reader_of(measured: Path, folder: Path, address: str, page: Path) -> Reader:
    copy_folder(measured, folder / "clone")
    shutil.copytree(measured.parent / "store", folder / "store")
    reader = Reader(folder / "clone", address)
    project = Project(reader.folder)
    project.rewrite("params.yaml", NOWHERE, address)
    if page.name in WITHOUT_REPORT:
        project.end_at_the_rates()
    reader.run("git commit -qa --amend --no-edit")
    return reader


# Those that say to do something.
RUN = [
    page
    for page in pages()
    if any(block.file or block.language in ("console", "yaml", "python") for block in blocks(page))
]


@pytest.mark.slow
@pytest.mark.parametrize("page", RUN, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_can_be_followed_and_shows_what_its_commands_print(page, measured, server, tmp_path):
    reader = reader_of(measured, tmp_path, server, page)
    for command, printed in reader.follow(page):
        if command.output:
            assert matches(command.output, printed), f"{command.line}\n{printed}"
    if page.name in ("extending.md", "extending-published.md"):
        what_was_added_breaks_no_other_test(reader)


# Tests that read everything there is of a kind.
OF_ALL = (
    "docs/test_docs_reference.py",
    "docs/test_layers.py",
    "judges/test_judges.py::test_every_kind_states_a_family_that_is_counted_and_describes_each_setting",
    "suites/test_suites.py::test_the_projects_own_suites_have_no_problems",
)


def what_was_added_breaks_no_other_test(reader: Reader) -> None:
    shutil.copytree(ROOT / "tests", reader.folder / "tests", ignore=shutil.ignore_patterns("*.pyc"))
    (reader.folder / "data/suites/greetings.md").touch()
    reader.run("python -m tools.reference && ruff check refract && ruff format --check refract")
    # This run's own processes are forked; another server for these few would load all libraries again.
    paths = " ".join(f"tests/{path}" for path in OF_ALL)
    reader.run(f"REFRACT_TESTS_FORK=no python -m pytest -x -p no:xdist {paths}")


def test_every_block_says_what_it_is():
    strange = [
        (page.name, block.language)
        for page in pages()
        for block in blocks(page)
        if block.language not in LANGUAGES
    ]
    assert strange == []


def test_dvc_sets_a_value_in_every_yaml_that_is_shown(tmp_path):
    """`dvc exp run -S` writes a file anew without quotes, and libyaml reads it."""
    from dvc.utils.hydra import apply_overrides
    from dvc.utils.serialize import load_yaml

    pytest.importorskip("_ruamel_yaml")
    shown = [block for page in pages() for block in blocks(page) if block.language == "yaml"]
    texts = [("params.yaml", (ROOT / "params.yaml").read_text("utf-8"))]
    texts += [(block.page.name, block.text) for block in shown]
    path = tmp_path / "params.yaml"
    for where, text in texts:
        path.write_text(text, "utf-8")
        before = load_yaml(path)
        assert before == YAML(typ="safe", pure=True).load(text), where
        apply_overrides(path, ["+set=1"])
        assert load_yaml(path) == {**before, "set": 1}, f"{where}: {text}"


def test_what_is_not_run_is_in_the_docs_and_has_options_that_exist():
    skipped = [
        command
        for page in pages()
        for block in blocks(page)
        if block.language == "console"
        for command in commands(block)
        if not is_run(command.line)
    ]
    unused = [start for start in NOT_RUN if not any(c.line.startswith(start) for c in skipped)]
    assert unused == []
    for command in skipped:
        check_options(command.line)


def test_commands_named_in_running_text_exist():
    spans = {
        span
        for page in pages()
        for span in re.findall(r"`((?:refract|dvc|make) [^`]+)`", page.read_text("utf-8"))
    }
    assert len(spans) > 20
    for span in spans:
        check_options(span, whole=False)


def check_options(line: str, whole: bool = True) -> None:
    """Raises unless a command and its options exist; ``whole``: its arguments are all there."""
    words = shlex.split(line, comments=True)
    if words[0] == "make":
        targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text("utf-8"), re.M)
        assert set(words[1:]) <= set(targets), line
    elif words[0] == "python":
        assert (ROOT / words[1]).is_file() or words[1] == "-m", line
    elif words[0] == "refract":
        check_refract(words[1:], whole)
    elif words[0] == "dvc":
        from dvc.cli.parser import get_main_parser

        if whole:
            get_main_parser().parse_args(words[1:])
        else:
            known = next(a.choices for a in get_main_parser()._actions if a.dest == "cmd")
            assert words[1] in known, line
    return None


def check_refract(words: list[str], whole: bool) -> None:
    from refract.cli import app

    command = typer.main.get_command(app)
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        context = typer.Context(command)
        _, command, words = command.resolve_command(context, words)  # raises for an unknown one
    if whole:
        command.make_context("refract", words)
    known = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
    assert {word for word in words if word.startswith("--")} <= {*known, "--help"}, words


def headings(page: Path) -> set[str]:
    """The addresses of a page's headings, as GitHub makes them."""
    lines = re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text("utf-8")), re.M)
    return {re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-") for line in lines}


def test_links_between_pages_lead_somewhere():
    for page in pages():
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8")):
            path, _, heading = target.partition("#")
            if "://" not in target:
                found = (page.parent / path) if path else page
                assert found.exists(), f"{page.name}: {target}"
                assert not heading or heading in headings(found), f"{page.name}: {target}"


def test_the_map_and_the_site_name_every_page():
    """Those of a package too: its README.md is in the map, and all its pages are in the site."""
    every = {page.name for page in (ROOT / "docs").glob("*.md")}
    packaged = {path.relative_to(ROOT).as_posix() for path in pages() if "packages" in path.parts}
    text = (ROOT / "docs/README.md").read_text("utf-8")
    linked = set(re.findall(r"\]\(([\w-]+\.md)", text))
    in_site = re.findall(
        r"^ *- (docs/\S+|packages/\S+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.M
    )
    assert linked | {"README.md"} == every
    assert {path for path in packaged if path.endswith("/README.md")} <= {
        f"packages/{path}" for path in re.findall(r"\]\(\.\./packages/([\w/-]+\.md)", text)
    }
    assert sorted(in_site) == sorted([*(f"docs/{name}" for name in every), *packaged])


def test_no_page_that_people_write_is_long():
    written = [page for page in (ROOT / "docs").glob("*.md") if page.name != "params.md"]
    long = [page.name for page in written if len(page.read_text("utf-8").split()) > 2800]
    assert long == []
    assert len((ROOT / "README.md").read_text("utf-8").split()) <= 700


def write_outputs(page: Path, reader: Reader) -> None:
    """Runs a page and puts in what its commands print, but for outputs that leave something open."""
    text = page.read_text("utf-8")
    for command, printed in reader.follow(page):
        if command.output and ANYTHING not in command.output:
            shown = "\n".join(line.rstrip() for line in printed.strip("\n").splitlines())
            at = text.index(command.first) + len(command.first)
            text = text[:at] + text[at:].replace(command.output, shown, 1)
    page.write_text(text, "utf-8")


if __name__ == "__main__":
    import tempfile

    wanted = [page for page in RUN if not sys.argv[1:] or page.name in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as temporary, FaultServer(script=lambda _: NO) as running:
        top, api = Path(temporary), f"{running.url}/v1"
        base = measured_clone(top / "base" / "clone")
        for number, found in enumerate(wanted):
            (top / str(number)).mkdir()
            write_outputs(found, reader_of(base, top / str(number), api, found))
