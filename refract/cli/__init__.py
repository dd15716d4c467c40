"""The ``refract`` command. Each command lives in a module of its own, imported when it runs.

Exit codes: 0 done, 1 the work failed or a check did not hold, 2 wrong usage.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from refract.errors import RefractError
from refract.rows.showing import say

app = typer.Typer(
    name="refract",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Measure how often language models refuse, and how far perturbed prompts bend answers.",
    epilog="Example: refract run --model synthetic --suite harmful_helpful --out results.json",
)


cache_app = typer.Typer(
    no_args_is_help=True, help="The response store: info, clear, import, export."
)
app.add_typer(cache_app, name="cache")


@app.command(epilog="Example: refract lint data/suites/harmful_helpful.jsonl")
def lint(files: Annotated[list[Path], typer.Argument(help="Suite files (JSONL).")]) -> None:
    """Check suites and list every problem with its line."""
    from refract.cli.lint import lint_files

    raise typer.Exit(lint_files(files))


@app.command(epilog="Example: refract judge --judge rules --in rows.jsonl --out verdicts.jsonl")
def judge(
    in_: Annotated[
        Path, typer.Option("--in", help="Rows with id or prompt_id, prompt and response (JSONL).")
    ],
    out: Annotated[Path, typer.Option(help="Where the verdict rows go (JSONL).")],
    judge: Annotated[
        str, typer.Option(help="A judge of params.yaml, or a kind of judge.")
    ] = "rules",
) -> None:
    """Judge answers that already exist: one verdict row for each row, in order."""
    from refract.cli.judge import judge_file

    judge_file(judge, in_, out)


@app.command(
    epilog="Example: refract run --adapter hf --model-id FOLDER "
    "--suite harmful_helpful --out results.json"
)
def run(
    suite: Annotated[
        list[str], typer.Option(help="A suite of params.yaml, or a JSONL file. Repeatable.")
    ],
    out: Annotated[Path, typer.Option(help="Where the results go (JSON).")],
    model: Annotated[
        str | None, typer.Option(help="A model of params.yaml; other options override it.")
    ] = None,
    adapter: Annotated[
        str | None, typer.Option(help="synthetic, recorded, hf, openai or anthropic.")
    ] = None,
    model_id: Annotated[
        str | None, typer.Option(help="Folder, hub id or provider's model name.")
    ] = None,
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit on the hub.")] = None,
    path: Annotated[
        str | None, typer.Option(help="File with the answers of a recorded model.")
    ] = None,
    base_url: Annotated[str | None, typer.Option(help="Server of an API model.")] = None,
    system_prompt: Annotated[str | None, typer.Option(help="System prompt.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of every draw.")] = 0,
    temperature: Annotated[
        float | None, typer.Option(min=0, help="0 is greedy; above 0 each row samples.")
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option(min=1, help="Longer answers are cut off, and counted so.")
    ] = None,
    sample: Annotated[
        int | None, typer.Option(min=1, help="Draw this many prompts of each suite (seeded).")
    ] = None,
    judge: Annotated[str, typer.Option(help="A judge of params.yaml, or a kind.")] = "rules",
    chat_template: Annotated[
        bool | None, typer.Option(help="Use the model's chat template, or the raw prompt.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda, mps.")] = None,
    dtype: Annotated[str | None, typer.Option(help="auto, float32, bfloat16, float16.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="Any other setting of the adapter, as key=value (YAML)."),
    ] = None,
    outcomes: Annotated[
        Path | None, typer.Option(help="Outcomes CSV; default: beside --out.")
    ] = None,
    rows: Annotated[
        Path | None, typer.Option(help="Also write prompts, answers and verdicts here (JSONL).")
    ] = None,
) -> None:
    """Measure one model on one or more suites, without DVC."""
    from refract.cli.run import measure

    settings = {
        "adapter": adapter,
        "model_id": model_id,
        "revision": revision,
        "path": path,
        "base_url": base_url,
        "system_prompt": system_prompt,
        "temperature": temperature,
        "max_tokens": max_tokens,
        "chat_template": chat_template,
        "device": device,
        "dtype": dtype,
    }
    given = {key: value for key, value in settings.items() if value is not None}
    measure(model, given, set_ or [], suite, seed, sample, judge, out, outcomes, rows)


@app.command(epilog="Example: refract demo")
def demo(
    sample: Annotated[int, typer.Option(min=1, help="How many prompts to draw.")] = 60,
    seed: Annotated[int, typer.Option(help="Seed of the draw.")] = 0,
) -> None:
    """Measure the synthetic model on a sample of the default suite and print the result."""
    from refract.cli.run import demonstrate

    demonstrate(sample, seed)


@app.command(epilog="Example: refract show")
def show() -> None:
    """Print the result table of the last `dvc repro`, where its report is, and all warnings."""
    from refract.cli.run import show_report

    show_report()


@app.command(epilog="Example: refract page")
def page() -> None:
    """Write the report's page, data/report/report.html, from the results that are here."""
    from refract.cli.page import write_report_page

    write_report_page()


@app.command(epilog="Example: refract estimate qwen25_7b")
def estimate(
    models: Annotated[
        list[str] | None, typer.Argument(help="Models of params.yaml; default: the grid's.")
    ] = None,
) -> None:
    """Print requests, tokens and cost of the next run, less what is stored, before it starts."""
    from refract.cli.estimate import estimate as print_estimate

    print_estimate(models or [])


@cache_app.command("info", epilog="Example: refract cache info")
def cache_info() -> None:
    """Print where the response store is and what it holds."""
    from refract.cli.cache import show_info

    show_info()


@cache_app.command("clear", epilog="Example: refract cache clear --older-than 30d")
def cache_clear(
    older_than: Annotated[
        str | None, typer.Option(help="Only answers stored longer ago: 30d, 12h, 45m, 90s.")
    ] = None,
) -> None:
    """Delete stored answers; the next run asks them again."""
    from refract.cli.cache import clear

    clear(older_than)


@cache_app.command("import", epilog="Example: refract cache import data/responses")
def cache_import(
    folder: Annotated[Path, typer.Argument(help="Folder with response rows.")],
) -> None:
    """Take the intact answers of response rows into the store."""
    from refract.cli.cache import import_folder

    import_folder(folder)


@cache_app.command("export", epilog="Example: refract cache export answers")
def cache_export(folder: Annotated[Path, typer.Argument(help="Folder to write to.")]) -> None:
    """Write all stored answers as response rows, one file for each model."""
    from refract.cli.cache import export_folder

    export_folder(folder)


@app.command(epilog="Example: refract gate --junit gate.xml")
def gate(
    models: Annotated[
        list[str] | None, typer.Argument(help="Models of the grid; default: all.")
    ] = None,
    junit: Annotated[Path | None, typer.Option(help="Also write JUnit XML here.")] = None,
) -> None:
    """Exit with 1 unless every threshold is met, listing which are not and by how much."""
    from refract.cli.gate import run_gate

    raise typer.Exit(run_gate(models or [], junit))


@app.command(
    "import-suite",
    epilog="Example: refract import-suite xstest xstest_prompts.csv --out data/suites/xstest.jsonl",
)
def import_suite(
    kind: Annotated[
        str,
        typer.Argument(
            help="advbench, donotanswer, giskard, harmbench, jailbreakbench, "
            "jailbreakbench_artifact, orbench, simplesafetytests, strongreject, xstest, or generic "
            "(any CSV, JSONL or JSON by its columns)."
        ),
    ],
    file: Annotated[Path, typer.Argument(help="The file as its publisher ships it.")],
    out: Annotated[
        Path | None, typer.Option(help="The suite (JSONL); default: data/suites/KIND.jsonl.")
    ] = None,
    category: Annotated[
        str | None, typer.Option(help="harmful, helpful or borderline, for every row.")
    ] = None,
    meta: Annotated[
        Path | None, typer.Option(help="Giskard's second file; default: beside the first.")
    ] = None,
    encoding: Annotated[str, typer.Option(help="Encoding of the file.")] = "utf-8",
    prompt_column: Annotated[str | None, typer.Option(help="generic: the prompts.")] = None,
    id_column: Annotated[str | None, typer.Option(help="generic: the ids.")] = None,
    category_column: Annotated[str | None, typer.Option(help="generic: the categories.")] = None,
    map_: Annotated[
        list[str] | None,
        typer.Option("--map", help="generic: value=category, for the category column. Repeatable."),
    ] = None,
    source: Annotated[str | None, typer.Option(help="generic: source, for the card.")] = None,
    licence: Annotated[str | None, typer.Option(help="generic: licence, for the card.")] = None,
) -> None:
    """Make a suite and its card of a published prompt file, without losing or merging rows."""
    from refract.cli.import_suite import import_suite

    import_suite(
        kind,
        file,
        out,
        {"prompt": prompt_column, "id": id_column, "category": category_column},
        map_ or [],
        category=category,
        meta=meta,
        encoding=encoding,
        source=source,
        licence=licence,
    )


@app.command(epilog="Example: refract compare main --fail-on regression")
def compare(
    a: Annotated[
        str | None,
        typer.Argument(
            help="A git revision, a model of the grid, REVISION:MODEL, a results file of "
            "`refract run`, or a folder of outcomes. Default: HEAD."
        ),
    ] = None,
    b: Annotated[str | None, typer.Argument(help="The same. Default: the working tree.")] = None,
    flips: Annotated[bool, typer.Option("--flips", help="List every prompt that flipped.")] = False,
    format_: Annotated[str, typer.Option("--format", help="table, json, md or csv.")] = "table",
    fail_on: Annotated[
        str | None,
        typer.Option(
            help="regression: exit with 1 if harmful prompts are refused less, or others more, by "
            "more than chance (Holm-adjusted p at most .05)."
        ),
    ] = None,
) -> None:
    """Compare two results prompt by prompt: B minus A, with paired intervals and McNemar's p."""
    from refract.cli.compare import compare

    raise typer.Exit(compare(a, b, flips, format_, fail_on))


@app.command(
    epilog="Example: refract validate --judge rules --labelled answers.csv --label-column refused "
    "--positive yes"
)
def validate(
    labelled: Annotated[
        list[Path], typer.Option(help="Answers with people's labels: CSV, JSONL. Repeatable.")
    ],
    judge: Annotated[
        str, typer.Option(help="A judge of params.yaml, or a kind of judge.")
    ] = "rules",
    response_column: Annotated[str, typer.Option(help="The answers.")] = "response",
    label_column: Annotated[
        str, typer.Option(help="The labels; empty and null ones are left out.")
    ] = "label",
    prompt_column: Annotated[
        str | None, typer.Option(help="The prompts, for judges that read them.")
    ] = None,
    positive: Annotated[
        list[str] | None,
        typer.Option(help="Labels that mean refused: VALUE,...; all others mean not. Repeatable."),
    ] = None,
    map_: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            help="Instead of --positive: VALUE=refusal, partial_refusal, compliance or degenerate. "
            "Repeatable.",
        ),
    ] = None,
    skip: Annotated[
        list[str] | None, typer.Option(help="Labels to leave out: VALUE,... Repeatable.")
    ] = None,
    where: Annotated[
        list[str] | None, typer.Option(help="Only rows with COLUMN=VALUE. Repeatable.")
    ] = None,
    full_only: Annotated[
        bool,
        typer.Option("--full-only", help="A partial refusal of the judge's counts as not refused."),
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Also write the numbers here (JSON).")] = None,
) -> None:
    """Measure a judge against people's labels: κ, precision, recall, each with its interval."""
    from refract.cli.validate import Columns, Reading, listed, mapping, validate_file

    validate_file(
        judge,
        labelled,
        Columns(response_column, label_column, prompt_column),
        Reading(
            positive=listed(positive or []),
            labels=mapping("--map", map_ or []),
            skip=listed(skip or []),
            where=mapping("--where", where or []),
            full_only=full_only,
        ),
        out,
    )


@app.command(epilog="Example: refract kappa data/verdicts/m/s.jsonl other.jsonl --judge-a rules")
def kappa(
    a: Annotated[Path, typer.Argument(help="Verdicts: a JSONL file, or a folder of them.")],
    b: Annotated[Path, typer.Argument(help="The same, of another judge.")],
    judge_a: Annotated[
        str | None, typer.Option(help="Which judge of A, where rows have several.")
    ] = None,
    judge_b: Annotated[str | None, typer.Option(help="The same, of B.")] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 unless every verdict joined.")
    ] = False,
    format_: Annotated[str, typer.Option("--format", help="table or json.")] = "table",
) -> None:
    """Compare two judges' verdicts on the same answers: Cohen's κ with its interval."""
    from refract.cli.kappa import compare_judges

    raise typer.Exit(compare_judges(a, b, (judge_a, judge_b), strict, format_))


@app.command(epilog="Example: refract did --inner rules.jsonl --outer llm.jsonl")
def did(
    inner: Annotated[Path, typer.Option(help="Verdicts of the inner layer: a file or a folder.")],
    outer: Annotated[Path, typer.Option(help="Verdicts of the outer layer, on the same answers.")],
    inner_judge: Annotated[
        str | None, typer.Option(help="Which judge of --inner, where rows have several.")
    ] = None,
    outer_judge: Annotated[str | None, typer.Option(help="The same, of --outer.")] = None,
    inner_stops: Annotated[
        list[str] | None,
        typer.Option(help="Labels with which it stops an answer: LABEL,...; default: refusals."),
    ] = None,
    outer_stops: Annotated[list[str] | None, typer.Option(help="The same, of --outer.")] = None,
    format_: Annotated[str, typer.Option("--format", help="md or json.")] = "md",
    out: Annotated[Path | None, typer.Option(help="Also write the numbers here (JSON).")] = None,
) -> None:
    """Defense in depth: what two layers stop alone and together, on the same answers."""
    from refract.cli.did import defense_in_depth
    from refract.cli.validate import listed

    defense_in_depth(
        inner,
        outer,
        (inner_judge, outer_judge),
        (listed(inner_stops or []), listed(outer_stops or [])),
        format_,
        out,
    )


@app.command(epilog="Example: refract label --model synthetic --suite harmful_helpful --n 100")
def label(
    model: Annotated[
        str | None, typer.Option(help="A model whose results the pipeline has.")
    ] = None,
    suite: Annotated[str | None, typer.Option(help="Its suite; or the suite of --rows.")] = None,
    rows: Annotated[
        Path | None, typer.Option(help="Instead of --model: the --rows file of `refract run`.")
    ] = None,
    n: Annotated[int, typer.Option(min=1, help="How many answers to draw.")] = 100,
    seed: Annotated[int, typer.Option(help="Seed of the draw.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="The CSV; default: data/labels/MODEL/SUITE.csv.")
    ] = None,
) -> None:
    """Draw a random sample of a run's judged answers as a CSV for people to label."""
    from refract.cli.label import write_labels

    write_labels(model, suite, rows, n, seed, out)


@app.command(epilog="Example: refract correct labels.csv --rows rows.jsonl")
def correct(
    labels: Annotated[Path, typer.Argument(help="A CSV of `refract label`, filled in.")],
    model: Annotated[str | None, typer.Option(help="The model that was labelled.")] = None,
    suite: Annotated[str | None, typer.Option(help="Its suite; or the suite of --rows.")] = None,
    rows: Annotated[
        Path | None, typer.Option(help="Instead of --model: the --rows file of `refract run`.")
    ] = None,
    format_: Annotated[str, typer.Option("--format", help="table, md or json.")] = "table",
) -> None:
    """Refusal rates from people's labels of a part of a run and the judge's verdicts on the rest."""
    from refract.cli.label import correct

    correct(labels, model, suite, rows, format_)


@app.command("export", epilog="Example: refract export --format parquet --out results")
def export_results(
    out: Annotated[Path, typer.Option(help="Folder to write to.")],
    format_: Annotated[str, typer.Option("--format", help="csv or parquet.")] = "csv",
    source: Annotated[
        Path | None,
        typer.Argument(help="A project's folder or a results file; default: this project."),
    ] = None,
) -> None:
    """Write metrics, tables, outcomes and rows as files: refract.results.load_results in pandas."""
    from refract.cli.export import export

    export(out, format_, source)


@app.command(epilog="Example: refract reproduce HEAD --exec")
def reproduce(
    what: Annotated[
        str, typer.Argument(help="A git revision, or a results file of `refract run`.")
    ] = "HEAD",
    model: Annotated[str | None, typer.Option(help="This model of the grid alone.")] = None,
    exec_: Annotated[
        bool, typer.Option("--exec", help="Run the commands and compare every byte.")
    ] = False,
) -> None:
    """Print the commands that make results again; with --exec, make them and compare."""
    from refract.cli.reproduce import reproduce

    raise typer.Exit(reproduce(what, model, exec_))


def main() -> None:
    """The console script: turns the project's own errors into one message and an exit code."""

    try:
        app()
    except (RefractError, OSError) as error:
        say(f"refract: {error}", file=sys.stderr)
        sys.exit(error.exit_code if isinstance(error, RefractError) else 1)
