"""What is computed, for people and other programs: ``refract show``, ``page``, ``table``, ``figures``,
``appendix``, ``export`` and ``log``."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from refract.cli.options import PIPELINE, EstimandOf, Models, Suites, keep_inputs, listed, mapping
from refract.cli.printing import print_by_suite, print_table, print_text
from refract.core.errors import UsageError
from refract.core.jsonl import write_bytes
from refract.core.params import decision_settings, grid
from refract.core.progress import answer_line, warning_lines
from refract.core.registry import find
from refract.core.showing import printable, say
from refract.export import EXPORTERS, Export, Exporter
from refract.export.latex import as_latex, as_markdown
from refract.export.paper import write_appendix
from refract.export.paper_tables import paper_table
from refract.export.trackers import TRACKERS, logged_runs
from refract.models.origins import arithmetic_lines
from refract.project import project_root, read_project
from refract.project.inputs import changed_files
from refract.report.drawing import drawn
from refract.report.figure_data import figures_of
from refract.report.first_table import (
    first_table,
    threshold_lines,
    threshold_table,
    turns_table,
)
from refract.report.judge_notes import further_table, prompt_readers, verdict_changes
from refract.report.report_files import PAGE, REPORT, write_page
from refract.report.view import View, check_names, read_titles, read_view
from refract.report.wording import percent
from refract.results import results_and_notes
from refract.results.current import current_note, notes_of, rows_missing, without_results
from refract.results.differences import reproduced
from refract.results.sources import Side, find_side, read_side
from refract.results.table_rows import confidence_of

Digits = Annotated[Literal["2", "3"], Option(help="Decimals.")]
OutputFolder = Annotated[Path, Option(help="Folder to write to.")]


def show(
    wide: Annotated[
        bool,
        Option(
            "--wide",
            help="Also counts, cut-off answers, bounds, where answers came from, and all warnings.",
        ),
    ] = False,
    estimand: EstimandOf = None,
) -> None:
    """Print the result table of the last `dvc repro`, and whether git has the same numbers.

    Example: refract show
    """
    root = project_root()
    params = read_project(root).params
    models = grid(params, "models")
    absent = without_results(root, models)
    about = estimand or decision_settings(root).estimand
    side, view = results_view(root, [model for model in models if model not in absent] or models)
    titles = read_titles(params.get("metadata"), models, grid(params, "suites"))
    rates = {model: [rate.asked(about) for rate in view.rates[model]] for model in view.rates}
    view = replace(view, rates=rates, titles=titles)
    table, limits, turns = first_table(view, wide=wide), threshold_table(view), turns_table(view)
    if table.rows and wide:
        print_table(table.header, table.rows)
        say()
    elif table.rows:
        say(f"share refused [{percent(view.confidence)}]")
        print_by_suite(table)
        say()
    interval_note = view.interval_note if wide else view.brief_interval_note
    if about == "these_prompts":
        interval_note = "Intervals are on these very prompts: of several samples of an answer"
        interval_note += ", and of the judge."
    for note in table.notes:
        print_text(interval_note if note == view.interval_note else note)
    lines = [*limits.notes, *threshold_lines(view, intervals=wide)]
    lines += [f"warning: {line}" for line in prompt_readers(view)]
    for line in lines + verdict_changes(view):
        print_text(line)
    further = further_table(view)
    if further.rows:
        print_table(further.header, further.rows)
    if wide and turns.rows:
        print_table(turns.header, turns.rows)
    missing = rows_missing(root, view.provenance)
    reasons = [*side.reasons, *changed_files(params)]
    notes = [*notes_of(absent, reasons, missing), *side.remarks]
    places = []
    for kind, file in (("report", REPORT), ("page", PAGE)):
        place = os.path.relpath(root / file)
        places.append(f"{kind}: {place}" if os.path.isfile(place) else f"{kind}: no {place}")
    if not ((root / REPORT).is_file() and (root / PAGE).is_file()):
        places.append("run: dvc repro")
    lines = [
        *turns.notes,
        *(f"note: {note}" for note in notes),
        *arithmetic_lines(root, view.provenance, wide=wide),
        "; ".join(places),
        answer_line(root, models) if wide else "",
        *warning_lines(root, models, short=not wide),
        reproduced(root),
    ]
    for line in lines:
        if line:
            print_text(line)


def results_view(root: Path, models: Sequence[str]) -> tuple[Side, View]:
    """The results of some models of a project, and their numbers as the report reads them."""
    side = read_side(root, models)
    rates = {model: result.rates for model, result in side.results.items()}
    provenance = {}
    for model, result in side.results.items():
        # Models without provenance that can be used are named by the side's reasons.
        if result.provenance:
            provenance[model] = result.provenance
    return side, View(rates, provenance, confidence=decision_settings(root).confidence)


def page() -> None:
    """Write the report's page, data/report/report.html, from the results that are computed.

    Example: refract page
    """
    say(f"page: {write_page(project_root(), arithmetic_lines)}")


def table(
    source: Annotated[
        str | None,
        Argument(
            help="A revision, a model of the grid, REVISION:MODEL, a results file of `refract run`, or "
            "a project's folder; default: the working tree."
        ),
    ] = None,
    models: Models = None,
    suites: Suites = None,
    measure: Annotated[
        list[str] | None,
        Option(help="Measures, a column each: NAME,...; default: refusal by category."),
    ] = None,
    by: Annotated[
        str | None, Option(help="A row for each value of this field, such as perturbation.")
    ] = None,
    wide: Annotated[
        bool,
        Option(
            "--wide",
            help="Counts, bounds and all that limits a rate in its cell; default: marks, which notes "
            "explain.",
        ),
    ] = False,
    digits: Digits = "2",
    format_: Annotated[
        Literal["md", "latex"],
        Option(
            "--format",
            help="Markdown, or LaTeX: a float with caption and notes (booktabs, graphicx).",
        ),
    ] = "md",
    out: Annotated[Path | None, Option(help="File to write; default: standard output.")] = None,
) -> None:
    """Rates with intervals as a table for a paper.

    Example: refract table --format latex --suite harmful_helpful
    """
    place = Path(source or "")
    inputs = [place / path for path in PIPELINE]
    if place.is_file():
        inputs = [place, place.with_suffix(".outcomes.csv")]
    keep_inputs({"--out": out}, inputs)
    side = find_side(Path.cwd(), source)
    names = listed(models) or list(side.results)
    check_names("--model", names, side.results)
    rates = {name: side.results[name].rates for name in names}
    bare = [name for name in names if not rates[name]]
    if bare:
        raise UsageError(f"{side.name} has outcomes of {', '.join(bare)}, and no table of rates")
    provenance = {name: side.results[name].provenance for name in names}
    levels = {confidence_of(facts) for facts in provenance.values()}
    view = View(rates, {name: facts or {} for name, facts in provenance.items()})
    paper = paper_table(
        rates,
        suites=listed(suites),
        measures=listed(measure),
        by=by,
        wide=wide,
        places=int(digits),
        level=", ".join(map(percent, sorted(levels))),
        note=view.interval_note,
    )
    text = as_markdown(paper) if format_ == "md" else as_latex(paper)
    reasons = list(side.reasons)
    if source is None:
        reasons += changed_files(read_project(Path.cwd()).params)
    notes = [current_note(reasons)] if reasons else []
    for note in (*notes, *side.remarks):
        say(f"note: {note}", file=sys.stderr)
    if out is None:
        say(text, end="")
    else:
        write_bytes(out, [printable(text, keep="\n").encode("utf-8", "backslashreplace")])


def figures(
    out: OutputFolder,
    format_: Annotated[
        Literal["pdf", "png", "svg"], Option("--format", help="How they are written.")
    ] = "pdf",
    models: Models = None,
    suites: Suites = None,
    style: Annotated[
        Path | None, Option(exists=True, dir_okay=False, help="A matplotlib style sheet.")
    ] = None,
) -> None:
    """Draw the figures of the report, of chosen models and suites, as PDF, PNG or SVG.

    Example: refract figures --format pdf --out paper/figures --suite harmful_helpful
    """
    view = read_view(project_root()).only(listed(models), listed(suites))
    for figure in figures_of(view):
        path = out / f"{figure.name}.{format_}"
        write_bytes(path, [drawn(figure, format_, style)])
        say(f"{path}: {figure.title}")


def appendix(
    out: OutputFolder,
    digits: Annotated[Literal["2", "3"], Option(help="Decimals of the tables.")] = "2",
    sign: Annotated[
        Path | None,
        Option(help="Sign the bundle with this SSH key, by ssh-keygen: ~/.ssh/id_ed25519."),
    ] = None,
) -> None:
    """Write a paper's appendix: methods, tables, figures, a checklist, references, and a bundle of what
    the numbers were made of, with a script that computes them again.

    Example: refract appendix --out paper/appendix
    """
    for line in write_appendix(project_root(), out, int(digits), sign=sign):
        say(line)


def export(
    out: OutputFolder,
    format_: Annotated[
        str,
        Option(
            "--format",
            metavar="<csv|parquet|every_eval_ever>",
            help="Tables as CSV or Parquet, or records of Every Eval Ever (schema 0.3).",
        ),
    ] = "csv",
    source: Annotated[
        Path | None, Argument(help="A project's folder or a results file; default: this project.")
    ] = None,
    organization: Annotated[
        str | None, Option(help="every_eval_ever: who ran the evaluation.")
    ] = None,
    relationship: Annotated[
        Literal["first_party", "third_party", "collaborative", "other"],
        Option(help="every_eval_ever: what the organization is to the models."),
    ] = "other",
    model_id: Annotated[
        list[str] | None,
        Option(
            help="every_eval_ever: a model's id, NAME=DEVELOPER/MODEL; default: the hub's or the "
            "provider's, else local/NAME. Repeatable."
        ),
    ] = None,
) -> None:
    """Write metrics, tables, outcomes and rows as files: refract.load_results in pandas.

    Example: refract export --format parquet --out results
    """
    if format_ == "every_eval_ever" and not organization:
        raise UsageError("--format every_eval_ever needs --organization: who ran the evaluation")
    if format_ != "every_eval_ever" and (organization or model_id):
        raise UsageError("--organization and --model-id go with --format every_eval_ever")
    if not EXPORTERS.knows(format_):
        formats = ", ".join((*EXPORTERS, *EXPORTERS.installed()))
        raise UsageError(f"--format must be one of {formats} (got {format_!r})")
    exporter: Exporter = find(EXPORTERS, format_, "--format")
    place = source or project_root()
    results, notes = results_and_notes(place)
    for note in notes:
        say(f"note: {note}", file=sys.stderr)
    publisher = {"organization": organization or "", "relationship": relationship}
    ids = mapping("--model-id", model_id)
    for line in exporter(Export(results, place, out, publisher=publisher, model_ids=ids)):
        say(line)


def log(
    tracker: Annotated[
        Literal["mlflow", "wandb"],
        Argument(help="Where to: as its own settings say (MLFLOW_TRACKING_URI, WANDB_MODE)."),
    ],
    experiment: Annotated[
        str, Option(help="The experiment of MLflow, or project of Weights & Biases.")
    ] = "refract",
    models: Models = None,
) -> None:
    """Log a run for each model to MLflow or Weights & Biases: settings, rates, intervals, files.

    Example: refract log mlflow
    """
    for run in logged_runs(project_root(), listed(models) or None):
        try:
            TRACKERS[tracker](experiment, run)
        except ImportError as error:
            raise UsageError(
                f"{tracker} is not installed ({error}); run: pip install 'refract-eval[{tracker}]'"
            ) from None
        say(f"{run.model}: {len(run.numbers)} numbers to {tracker}, {experiment}")
