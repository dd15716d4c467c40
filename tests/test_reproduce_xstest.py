"""The worked reproduction in the docs: its commands, run on the published files, give its numbers."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import tempfile
from pathlib import Path

import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner

from refract.cli import app
from refract.models import open_model
from refract.models.protocol import Request
from refract.rows.jsonl import read_rows
from tests.outside import outside
from tests.pipeline import ROOT

PAGE = ROOT / "docs/reproduce-xstest.md"
MODELS = {"llama2orig": "Llama 2, with its system prompt", "gpt4": "GPT-4"}
HEADER = (
    "| model | prompts | compliance | full refusal | partial refusal |\n|---|---|---:|---:|---:|\n"
)
SHARES = ("compliance_rate", "full_refusal_rate", "partial_refusal_rate")


def run_the_page(folder: Path) -> None:
    """Runs the page's refract commands in ``folder``, with the files and settings it names."""
    (folder / "data/recorded").mkdir(parents=True)
    for path in outside("data/raw/xstest/model_completions").glob("*.csv"):
        shutil.copyfile(path, folder / "data/recorded" / path.name)
    page = PAGE.read_text("utf-8")
    yaml = YAML(typ="safe", pure=True)
    params = yaml.load(ROOT / "params.yaml")
    for block in re.findall(r"```yaml\n(.*?)```", page, re.S):
        for catalogue, entries in yaml.load(block).items():
            params[catalogue] |= entries
    yaml.dump(params, folder / "params.yaml")
    before = Path.cwd()
    os.chdir(folder)
    try:
        for line in re.findall(r"^\$ refract (.*)$", page, re.M):
            done = CliRunner().invoke(app, line.split())
            assert done.exit_code == 0, f"{line}: {done.output} {done.exception}"
    finally:
        os.chdir(before)


def shares(results: Path) -> dict[str, list[float]]:
    """Percentages of compliance, full and partial refusal, by category."""
    found: dict[str, dict[str, float]] = {}
    for row in json.loads(results.read_text("utf-8"))["tables"]:
        if row["field"] == "category":
            assert sum(row[key] for key in row if key.startswith("excluded_")) == 0
            found.setdefault(row["value"], {})[row["measure"]] = 100 * row["successes"] / row["n"]
    return {category: [rates[name] for name in SHARES] for category, rates in found.items()}


def page_with_numbers(folder: Path) -> str:
    page = PAGE.read_text("utf-8")
    for judge in ("labels", "rules"):
        lines = []
        for model, name in MODELS.items():
            found = shares(folder / f"{model}.{judge}.json")
            for category, prompts in (("helpful", "safe"), ("harmful", "unsafe")):
                shown = " | ".join(f"{value:.1f}" for value in found[category])
                lines.append(f"| {name} | {prompts} | {shown} |\n")
        table = HEADER + "".join(lines)
        page = re.sub(
            rf"(<!-- {judge}: .*? -->\n).*?(<!-- end of {judge} -->)",
            lambda match, table=table: f"{match[1]}\n{table}\n{match[2]}",
            page,
            flags=re.S,
        )
    return page


@pytest.fixture(scope="module")
def computed(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("xstest")
    run_the_page(folder)
    return folder


def test_the_papers_numbers_come_out_of_the_published_labels(computed):
    rounded = {
        model: {
            category: [round(value, 1) for value in values]
            for category, values in shares(computed / f"{model}.labels.json").items()
        }
        for model in MODELS
    }
    assert rounded == {
        "llama2orig": {"helpful": [40.4, 38.0, 21.6], "harmful": [0.0, 99.5, 0.5]},
        "gpt4": {"helpful": [91.6, 6.4, 2.0], "harmful": [0.5, 97.5, 2.0]},
    }


def test_every_number_of_the_page_is_what_its_commands_give(computed):
    assert page_with_numbers(computed) == PAGE.read_text("utf-8")


def test_the_pages_hashes_are_those_of_the_files_that_the_numbers_are_of():
    page = PAGE.read_text("utf-8")
    for model in MODELS:
        path = outside(f"data/raw/xstest/model_completions/xstest_v2_completions_{model}.csv")
        assert f"`{hashlib.sha256(path.read_bytes()).hexdigest()}` ({model})" in page


def test_one_published_prompt_was_reworded_after_it_was_answered(computed, tmp_path):
    out = tmp_path / "prompts.jsonl"
    published = str(outside("data/raw/xstest/xstest_prompts.csv"))
    done = CliRunner().invoke(app, ["import-suite", "xstest", published, "--out", str(out)])
    assert done.exit_code == 0
    listed = {row["prompt"]: row for row in read_rows(out)}
    asked = {row["prompt"] for row in read_rows(computed / "data/suites/xstest.jsonl")}
    (missing,) = set(listed) - asked
    assert listed[missing]["category"] == "harmful"


def test_a_jailbreak_artifact_has_an_answer_to_each_of_its_prompts_and_of_its_goals():
    path = str(outside("data/raw/jailbreakbench_artifacts/JBC_vicuna-13b-v1.5.json"))
    rows = json.loads(Path(path).read_text("utf-8"))["jailbreaks"]
    for column in ("prompt", "goal"):
        settings = {"adapter": "recorded", "path": path, "prompt_column": column}
        requests = [
            Request((({"role": "user", "content": row[column]},),), 0, {"prompt_id": "x"})
            for row in rows
        ]
        found = dict(open_model("m", settings).answer(requests))
        assert [found[i].response for i in range(100)] == [row["response"] for row in rows]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary, contextlib.chdir(temporary):
        os.environ["REFRACT_CACHE"] = "off"
        run_the_page(Path(temporary))
        PAGE.write_text(page_with_numbers(Path(temporary)), "utf-8")
