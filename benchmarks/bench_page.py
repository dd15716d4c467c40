"""Size, seconds and memory of building the report's page, and of opening and searching it.

    .venv/bin/python benchmarks/bench_page.py

For 50,000 and 200,000 answers of 100 and of 1,000 characters: runs the stage ``report`` as DVC runs it,
in a process of its own, in a project made in a temporary folder, of one model, so that no time goes to
comparisons of models; and where Chromium and its driver are there, opens the page. Prints:

``build s``, ``cpu s``, ``peak MB`` of the stage; ``open s``: from the start of loading until the list
of answers is there; ``search s``: from a word typed at once after that until its answers are listed (the
first search reads every text); ``tab MB``: most memory of the tab's process until then. Each is the
best of ``--repeats``.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from itertools import product
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.processes import ROOT, run_python
from refract.core.jsonl import write_json, write_rows
from refract.core.types import given_prompt, given_response
from refract.report.report_files import PAGE
from tests.report.test_page_in_a_browser import CHROMIUM, DRIVER, FILTER, Browser, chromium

PARAMS = """
grid: {models: [synthetic], suites: [many]}
suites:
  many: {file: data/suites/many.jsonl, judges: [rules]}
judges:
  rules: {kind: rules}
models:
  synthetic: {adapter: synthetic}
"""
# Milliseconds from the start of loading.
READY = "return Number(document.documentElement.dataset.ready)"


def made_up_text(words: int = 500_000) -> str:
    """Words of which few are frequent and those are short, as in a language."""
    generator = random.Random(0)
    letters = "etaoinshrdlucmfwypvbgk"
    vocabulary = [
        "".join(generator.choices(letters, k=generator.randint(2, 3 + number // 2_000)))
        for number in range(20_000)
    ]
    return " ".join(vocabulary[int(20_000 * generator.random() ** 4)] for _ in range(words))


def write_project(folder: Path, answers: int, length: int) -> None:
    """A project in which everything but the report is computed."""
    generator, source = random.Random(1), made_up_text()

    def text(length: int) -> str:
        start = generator.randrange(len(source) - length)
        return source[start : start + length]

    suite = [
        {
            "id": f"many-{number:06d}",
            "category": ("harmful", "helpful")[number % 2],
            "prompt": f"{number}: {text(80)}?",
        }
        for number in range(answers)
    ]
    write_rows(folder / "data/suites/many.jsonl", suite)
    prompts = (
        {**given_prompt(row["id"], row["prompt"]), "suite": "many", "category": row["category"]}
        for row in suite
    )
    write_rows(folder / "data/prompts/many.jsonl", prompts)
    (folder / "params.yaml").write_text(PARAMS)
    (folder / "constraints.txt").write_text((ROOT / "constraints.txt").read_text())
    held, judged = folder / "data/responses/synthetic", folder / "data/verdicts/synthetic"
    made = (given_response(row["id"], text(length)) for row in suite)
    write_rows(held / "many.jsonl", ({**row, "request_sha256": row["prompt_id"]} for row in made))
    definition = {"adapter": "synthetic"}
    identity = {**definition, "adapter_version": "2"}
    model = {"definition": definition, "identity": identity, "seed": None, "parameters": None}
    write_json(held / "model.json", model)
    write_rows(judged / "many.jsonl", (verdict(generator, row["id"]) for row in suite))
    write_json(judged / "judges.json", {"rules": {"kind": "rules", "version": "6"}})
    write_json(judged / "families.json", {"rules": "refusal"})
    run_python(folder, "-m", "stages.aggregate", "synthetic")


def verdict(generator: random.Random, id_: str) -> dict[str, Any]:
    """Of half the answers that they refuse, with evidence."""
    refused, start = generator.random() < 0.5, generator.randint(0, 60)
    evidence = {"start": start, "end": start + 12, "rule": "cannot_help", "text": "…"}
    made = {"label": "refusal" if refused else "compliance", "refused": refused, "error": None}
    made |= {"score": 0.9 if refused else 0.0, "evidence": [evidence] * refused}
    return {"prompt_id": id_, "judges": {"rules": made}}


def open_page(page: Path) -> dict[str, float]:
    """Seconds until a page is ready, and until it has searched, and the memory of its tab."""
    with tempfile.TemporaryDirectory() as profile, chromium(Path(profile)) as driver:
        driver.set_page_load_timeout(300)
        driver.set_script_timeout(300)
        Browser(driver, page).visit(page)
        opened = driver.execute_script(READY)
        took, _ = driver.execute_async_script(FILTER, "search", "needle that is nowhere")
        return {"open s": opened / 1000, "search s": took / 1000, "tab MB": tab_memory(profile)}


def tab_memory(profile: str) -> float:
    """The peak memory (MB) of the largest of a browser's tabs."""
    found = [0.0]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_text("utf-8", "replace")
            status = (process / "status").read_text()
        except OSError:
            continue  # it has ended
        if "--type=renderer" in command and profile in command:
            peak = status.split("VmHWM:")[1].split()[0]
            found.append(int(peak) * 1024 / 1e6)
    return max(found)


def measure(answers: int, length: int, repeats: int) -> dict[str, float]:
    """All of the table's numbers for so many answers of so many characters."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        write_project(folder, answers, length)
        built = [run_python(folder, "-m", "stages.report") for _ in range(repeats)]
        names = ("build s", "cpu s", "peak MB")
        tries = [dict(zip(names, used, strict=True)) for used in built]
        page = folder / PAGE
        found = {"page MB": page.stat().st_size / 1e6}
        if CHROMIUM and DRIVER:
            opened = [open_page(page) for _ in range(repeats)]
            tries = [one | shown for one, shown in zip(tries, opened, strict=True)]
        return found | {key: min(one[key] for one in tries) for key in tries[0]}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--answers", type=int, nargs="+", default=[50_000, 200_000])
    parser.add_argument("--characters", type=int, nargs="+", default=[100, 1_000])
    parser.add_argument("--repeats", type=int, default=2)
    given = parser.parse_args()
    for answers, length in product(given.answers, given.characters):
        measured = measure(answers, length, given.repeats).items()
        numbers = (f"{name} {value:,.{1 if value < 100 else 0}f}" for name, value in measured)
        print(f"{answers:,} answers of {length:,} characters:", *numbers, sep="  ", flush=True)


if __name__ == "__main__":
    main()
