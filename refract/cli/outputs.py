"""What is computed, for people and other programs: ``refract show``, ``page``, ``table``, ``figures``,
``appendix``, ``export`` and ``log``."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from refract.cli.options import PIPELINE, EstimandOf, Models, Suites, keep_inputs, listed, mapping
from refract.core.errors import UsageError
from refract.core.jsonl import write_bytes
from refract.core.showing import printable, say


def show(
    wide: Annotated[bool, typer.Option("--wide")] = False, estimand: EstimandOf = None
) -> None:
    """Print the result table of the last `dvc repro`, and whether git has the same numbers.

    Example: refract show

    Args:
        wide: Every judge with counts, cut-off answers and bounds; where answers came from; all warnings.
    """
    from refract.cli.printing import print_by_suite, print_table, print_text
    from refract.core.params import decision_settings, grid
    from refract.core.progress import answer_line, ran_file, read_object, warning_lines
    from refract.models.origins import arithmetic_line
    from refract.project import project_root, read_project
    from refract.report.first_table import (
        first_table,
        threshold_lines,
        threshold_table,
        turns_table,
    )
    from refract.report.report_files import PAGE, REPORT
    from refract.report.view import View, read_titles
    from refract.report.wording import percent
    from refract.results.current import notes_of, rows_missing, without_results
    from refract.results.differences import reproduced
    from refract.results.sources import read_side

    root = project_root()
    params = read_project(root).params
    models = grid(params, "models")
    absent = without_results(root, models)
    side = read_side(root, [m for m in models if m not in absent] or models)
    about = estimand or decision_settings(root).estimand
    rates = {model: [rate.asked(about) for rate in x.rates] for model, x in side.results.items()}
    # Models without provenance that can be used are named by the side's reasons.
    provenance = {m: result.provenance for m, result in side.results.items() if result.provenance}
    titles = read_titles(params.get("metadata"), models, grid(params, "suites"))
    view = View(rates, provenance, titles, confidence=decision_settings(root).confidence)
    table, limits = first_table(view, wide=wide), threshold_table(view)
    if wide and table.rows:
        print_table(table.header, table.rows)
    elif table.rows:
        say(f"share refused [{percent(view.confidence)}]")
        print_by_suite(table)
    if table.rows:
        say()
    verdicts = [f"  {line}" for line in threshold_lines(view, intervals=wide)]
    note = view.interval_note if wide else view.brief_interval_note
    if about == "these_prompts":
        note = "Intervals are on these very prompts: of several samples of an answer, and of the judge."
    brief = [note if x == view.interval_note else x for x in table.notes]
    for line in (*brief, *limits.notes, *verdicts):
        print_text(line)
    turns = turns_table(view)
    if wide and turns.rows:
        print_table(turns.header, turns.rows)
    missing = rows_missing(root, provenance)
    lines = [*turns.notes, *(f"note: {x}" for x in notes_of(absent, side.reasons, missing))]
    certified: dict[str, list[str]] = {}
    for model, facts in provenance.items():
        if line := arithmetic_line(facts, read_object(root / ran_file(model))):
            whole = not wide and re.match(r"([\d,]+) of \1 answers certified", line)
            certified.setdefault("all answers certified" if whole else line, []).append(model)
    lines += [f"{', '.join(of)}: {line}" for line, of in certified.items()]
    places = {"report": os.path.relpath(root / REPORT), "page": os.path.relpath(root / PAGE)}
    there = {kind: os.path.isfile(place) for kind, place in places.items()}
    told = [f"{kind}: {'' if there[kind] else 'no '}{place}" for kind, place in places.items()]
    lines.append("; ".join([*told, *([] if all(there.values()) else ["run: dvc repro"])]))
    lines += [answer_line(root, models)] if wide else []
    lines += [*warning_lines(root, models, short=not wide), reproduced(root)]
    for line in filter(None, lines):
        print_text(line)


def page() -> None:
    """Write the report's page, data/report/report.html, from the results that are computed.

    Example: refract page
    """
    from refract.project import project_root
    from refract.report.report_files import write_page

    say(f"page: {write_page(project_root())}")


def table(
    source: Annotated[str | None, typer.Argument()] = None,
    models: Models = None,
    suites: Suites = None,
    measure: list[str] | None = None,
    by: str | None = None,
    wide: Annotated[bool, typer.Option("--wide")] = False,
    digits: Annotated[Literal["2", "3"], typer.Option()] = "2",
    format_: Annotated[Literal["md", "latex"], typer.Option("--format")] = "md",
    out: Path | None = None,
) -> None:
    """Rates with intervals as a table for a paper.

    Example: refract table --format latex --suite harmful_helpful

    Args:
        source: A revision, a model of the grid, REVISION:MODEL, a results file of `refract run`, or a
          project's folder; default: the working tree.
        measure: Measures, a column each: NAME,...; default: refusal by category.
        by: A row for each value of this field, such as perturbation.
        wide: Counts, bounds and all that limits a rate in its cell; default: marks, which notes explain.
        digits: Decimals.
        format_: Markdown, or LaTeX: a float with caption and notes (booktabs, graphicx).
        out: File to write; default: standard output.
    """
    from refract.export.latex import as_latex, as_markdown
    from refract.export.paper_tables import paper_table
    from refract.report.view import View, check_names
    from refract.report.wording import percent
    from refract.results.current import current_note
    from refract.results.sources import find_side
    from refract.results.table_rows import confidence_of

    place = Path(source or "")
    beside = [place.with_suffix(".outcomes.csv")] if place.is_file() else []
    keep_inputs({"--out": out}, [place, *beside] if beside else [place / x for x in PIPELINE])
    side = find_side(Path.cwd(), source)
    wanted = listed(models) or list(side.results)
    check_names("--model", wanted, side.results)
    rates = {name: side.results[name].rates for name in wanted}
    if bare := [name for name, of_model in rates.items() if not of_model]:
        raise UsageError(f"{side.name} has outcomes of {', '.join(bare)}, and no table of rates")
    levels = {confidence_of(side.results[name].provenance) for name in wanted}
    made = paper_table(
        rates,
        suites=listed(suites),
        measures=listed(measure),
        by=by,
        wide=wide,
        places=int(digits),
        level=", ".join(map(percent, sorted(levels))),
        note=View(rates, {x: side.results[x].provenance or {} for x in wanted}).interval_note,
    )
    text = as_markdown(made) if format_ == "md" else as_latex(made)
    if side.reasons:
        say(f"note: {current_note(side.reasons)}", file=sys.stderr)
    if out is None:
        return say(text, end="")
    write_bytes(out, [printable(text, keep="\n").encode("utf-8", "backslashreplace")])


def figures(
    out: Annotated[Path, typer.Option()],
    format_: Annotated[Literal["pdf", "png", "svg"], typer.Option("--format")] = "pdf",
    models: Models = None,
    suites: Suites = None,
    style: Annotated[Path | None, typer.Option(exists=True, dir_okay=False)] = None,
) -> None:
    """Draw the figures of the report, of chosen models and suites, as PDF, PNG or SVG.

    Example: refract figures --format pdf --out paper/figures --suite harmful_helpful

    Args:
        out: Folder to write to.
        format_: How they are written.
        style: A matplotlib style sheet.
    """
    from refract.project import project_root
    from refract.report.drawing import drawn
    from refract.report.figure_data import figures_of
    from refract.report.view import read_view

    for figure in figures_of(read_view(project_root()).only(listed(models), listed(suites))):
        path = out / f"{figure.name}.{format_}"
        write_bytes(path, [drawn(figure, format_, style)])
        say(f"{path}: {figure.title}")


def appendix(
    out: Annotated[Path, typer.Option()], digits: Annotated[Literal["2", "3"], typer.Option()] = "2"
) -> None:
    """Write a paper's appendix: methods, tables, figures, a checklist, references, and a bundle of what
    the numbers were made of, with a script that computes them again.

    Example: refract appendix --out paper/appendix

    Args:
        out: Folder to write to.
        digits: Decimals of the tables.
    """
    from refract.export.paper import write_appendix
    from refract.project import project_root

    for line in write_appendix(project_root(), out, int(digits)):
        say(line)


def export(
    out: Annotated[Path, typer.Option()],
    format_: Annotated[str, typer.Option("--format")] = "csv",
    source: Annotated[Path | None, typer.Argument()] = None,
    organization: str | None = None,
    relationship: Literal["first_party", "third_party", "collaborative", "other"] = "other",
    model_id: list[str] | None = None,
) -> None:
    """Write metrics, tables, outcomes and rows as files: refract.load_results in pandas.

    Example: refract export --format parquet --out results

    Args:
        out: Folder to write to.
        format_ <<csv|parquet|every_eval_ever>>: Tables as CSV or Parquet, or records of Every Eval Ever
          (schema 0.3).
        source: A project's folder or a results file; default: this project.
        organization: every_eval_ever: who ran the evaluation.
        relationship: every_eval_ever: what the organization is to the models.
        model_id: every_eval_ever: a model's id, NAME=DEVELOPER/MODEL; default: the hub's or the
          provider's, else local/NAME. Repeatable.
    """
    from refract.core.registry import find
    from refract.export import EXPORTERS, Export, Exporter
    from refract.project import project_root
    from refract.results import results_and_notes

    if format_ == "every_eval_ever" and not organization:
        raise UsageError("--format every_eval_ever needs --organization: who ran the evaluation")
    if format_ != "every_eval_ever" and (organization or model_id):
        raise UsageError("--organization and --model-id go with --format every_eval_ever")
    exporter: Exporter = find(EXPORTERS, format_, "--format")
    place = source or project_root()
    results, notes = results_and_notes(place)
    for note in notes:
        say(f"note: {note}", file=sys.stderr)
    publisher = {"organization": organization or "", "relationship": relationship}
    ids = mapping("--model-id", model_id)
    for line in exporter(Export(results, place, out, publisher, ids)):
        say(line)


def log(
    tracker: Literal["mlflow", "wandb"], experiment: str = "refract", models: Models = None
) -> None:
    """Log a run for each model to MLflow or Weights & Biases: settings, rates, intervals, files.

    Example: refract log mlflow

    Args:
        tracker: Where to: as its own settings say (MLFLOW_TRACKING_URI, WANDB_MODE).
        experiment: The experiment of MLflow, or project of Weights & Biases.
    """
    from refract.export.trackers import TRACKERS, logged_runs
    from refract.project import project_root

    for run in logged_runs(project_root(), listed(models) or None):
        try:
            TRACKERS[tracker](experiment, run)
        except ImportError as error:
            raise UsageError(
                f"{tracker} is not installed ({error}); run: pip install 'refract-eval[{tracker}]'"
            ) from None
        say(f"{run.model}: {len(run.numbers)} numbers to {tracker}, {experiment}")
