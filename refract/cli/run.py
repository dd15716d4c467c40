"""``refract run``: a model on some suites, or by a published protocol, without DVC."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer import Option

from refract.cli.options import (
    ConfidenceChoice,
    NoStore,
    confidence_level,
    decided_by,
    judge_base_url,
    judge_model,
    keep_inputs,
    yaml_values,
)
from refract.cli.run_text import print_rates, print_summary, run_view
from refract.core.consent import NEEDED
from refract.core.errors import RefractError, UsageError
from refract.core.params import decision_settings, null_settings
from refract.core.secrets import without_secrets
from refract.core.showing import say
from refract.evaluate import evaluate, read_suites, rows_sha256
from refract.judges import open_judges, reading_warnings, thinking_warnings
from refract.models import open_model
from refract.models.answering import ANSWERS
from refract.models.store import open_store
from refract.project import (
    find_judges,
    find_model,
    find_project,
    find_suite,
    source_name,
)
from refract.project.inputs import files_named
from refract.rates.counting import coverage_warnings
from refract.report.judge_notes import prompt_readers, verdict_changes
from refract.results.sources import run_files, write_run
from refract.suites.protocols import CATALOGUES

# Options that are settings of the model's adapter.
SETTINGS = ["adapter", "model_id", "path", "base_url", "system_prompt", "temperature", "max_tokens"]
# Options that change no number.
UNNAMED = ("out", "rows", "wide", "engine", "no_store")
JUDGING = "Who judges"
# Options in the panels of the help.
measured = partial(Option, rich_help_panel="What to measure")
of_model = partial(Option, rich_help_panel="With what model")
of_answers = partial(Option, rich_help_panel="How it answers")
of_judges = partial(Option, rich_help_panel=JUDGING)
of_output = partial(Option, rich_help_panel="Output")


def run(
    context: typer.Context,
    *,
    suite: Annotated[
        list[str] | None,
        measured(
            metavar="NAME|FILE",
            help="A suite of params.yaml or a JSONL file; with --protocol its publisher's file. "
            "Repeatable.",
        ),
    ] = None,
    protocol: Annotated[
        str | None,
        measured(
            metavar="NAME[@VERSION]",
            help="A published protocol (`refract protocols`); other options deviate.",
        ),
    ] = None,
    limit: Annotated[
        int | None,
        measured(
            min=1,
            metavar="N",
            help="Only so many prompts of each suite, of each category its share; drawn by --seed.",
        ),
    ] = None,
    model: Annotated[
        str | None,
        of_model(metavar="NAME", help="A model of params.yaml; other options override it."),
    ] = None,
    adapter: Annotated[
        str | None,
        of_model(
            metavar="anthropic|hf|openai|recorded|synthetic|vllm",
            help="How it is reached; servers of any kind: openai and --base-url.",
        ),
    ] = None,
    model_id: Annotated[
        str | None,
        of_model(metavar="ID", help="Folder, hub id or the provider's name for it."),
    ] = None,
    base_url: Annotated[str | None, of_model(metavar="URL", help="Its server.")] = None,
    path: Annotated[
        str | None,
        of_model(metavar="FILE", help="Answers of a recorded model."),
    ] = None,
    name: Annotated[
        str | None,
        of_model(
            metavar="NAME", help="What results call it; default: its name or the end of its id."
        ),
    ] = None,
    system_prompt: Annotated[str | None, of_answers(metavar="TEXT", help="System prompt.")] = None,
    temperature: Annotated[
        float | None,
        of_answers(min=0, metavar="T", help="0 is greedy; above 0 each prompt is sampled."),
    ] = None,
    max_tokens: Annotated[
        int | None,
        of_answers(min=1, metavar="N", help="Longer answers are cut off."),
    ] = None,
    samples: Annotated[
        int | None,
        of_answers(
            min=1, metavar="K", help="Answers for each prompt; above 1 needs a temperature above 0."
        ),
    ] = None,
    seed: Annotated[int, of_answers(metavar="N", help="Seed of every draw.")] = 0,
    engine: Annotated[
        Literal["process", "ray"] | None,
        of_answers(
            help="Whether this process answers, or actors of Ray; default: as params.yaml says."
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        of_answers(
            "--set",
            metavar="KEY=VALUE",
            help="Any other setting of the adapter (YAML), such as device=cuda. Repeatable.",
        ),
    ] = None,
    judge: Annotated[
        list[str] | None,
        of_judges(
            metavar="NAME",
            help="A judge of params.yaml, a kind, or llm (--judge-model); default: refusal, which also "
            "stands before one that labels something else, or the protocol's. Repeatable.",
        ),
    ] = None,
    judge_model: Annotated[str | None, judge_model(rich_help_panel=JUDGING)] = None,
    judge_base_url: Annotated[str | None, judge_base_url(rich_help_panel=JUDGING)] = None,
    cut_off: Annotated[
        Literal["judged", "excluded"] | None,
        of_judges(
            help="Whether answers cut off at --max-tokens are judged by what they say, or left out; "
            "default: as the suite says, else judged."
        ),
    ] = None,
    provider_refusals: Annotated[
        Literal["refused", "excluded"] | None,
        of_judges(
            help="Whether the provider's own refusals count as refused or are left out; default: as the "
            "project decides."
        ),
    ] = None,
    content_filters: Annotated[
        Literal["refused", "excluded"] | None,
        of_judges(
            help="The same of what a content filter took away; default: as the project decides."
        ),
    ] = None,
    out: Annotated[Path, of_output(metavar="FILE", help="The results (JSON).")],
    rows: Annotated[
        Path | None,
        of_output(
            metavar="FILE",
            help="Also prompts, answers and verdicts (JSONL); as NAME.rows.jsonl beside NAME.json they "
            "are checked and exported with it.",
        ),
    ] = None,
    no_store: NoStore = False,
    confidence: Annotated[
        ConfidenceChoice | None, confidence_level(rich_help_panel="Output")
    ] = None,
    wide: Annotated[
        bool,
        of_output("--wide", help="All measures, also without cut-off answers, and more digits."),
    ] = False,
) -> None:
    """Measure one model on one or more suites, or by a published protocol, without DVC; exit with 1 if
    every answer is an error.

    Example: refract run --adapter hf --model-id FOLDER --suite harmful_helpful --out results.json
    """
    if engine is not None:
        os.environ["REFRACT_ENGINE"] = engine
    if no_store:
        os.environ["REFRACT_CACHE"] = "off"
    if model is None and adapter is None:
        raise UsageError("name a model of params.yaml with --model, or an adapter with --adapter")
    if protocol is None and not suite:
        raise UsageError("name a suite with --suite, or a published protocol with --protocol")
    if protocol is not None and judge is None and judge_model is not None:
        raise UsageError("--judge-model with --protocol: name the judge too, as in --judge llm")
    if protocol is not None and len(judge or []) > 1:
        raise UsageError(f"a --protocol takes one --judge (got {', '.join(judge or [])})")
    project = find_project()
    settings = {key: context.params[key] for key in SETTINGS if context.params[key] is not None}
    settings |= yaml_values("--set", set_)
    named = {} if model is None else find_model(model, project)
    definition = named | settings
    name = name or model or source_name(definition)
    if not name.strip() or not name.isprintable():
        raise UsageError(f"--name takes a printable text that is not empty (got {name!r})")
    if without_secrets(name)[1]:
        raise UsageError(
            "--name, or else the end of --model-id, must hold no secret: results are called by it"
        )
    judges = find_judges(
        judge, project, judge_model, base_url=judge_base_url, alone=protocol is not None
    )
    decisions = decided_by(
        decision_settings(project.folder),
        confidence,
        provider_refusals=provider_refusals,
        content_filters=content_filters,
    )
    null_answers = null_settings(project.params)
    inputs: list[Path | str] = [*files_named(definition, judges)]
    for argument in suite or []:
        if protocol is None:
            inputs += files_named(find_suite(argument, project)[1])
        else:
            inputs.append(argument.rpartition("=")[2])
    beside = {} if out.is_dir() else run_files(out)
    keep_inputs({"--out": out, **beside, "--rows": rows}, inputs)
    say(_where_to(name, definition, judges if protocol is None or judge else None))
    with open_store() as store:
        if protocol is not None:
            asked = {
                "model": {**named, "adapter": definition["adapter"]},
                "changed": settings,
                "files": suite or [],
                "judge": next(iter(judges.items())) if judge else None,
                "samples": samples,
                "cut_off": cut_off,
            }
            evaluation = CATALOGUES.holding(protocol, "--protocol").run(
                protocol,
                name,
                asked,
                store=store,
                seed=seed,
                sample=limit,
                settings=decisions,
                null_answers=null_answers,
            )
        else:
            if samples is not None:
                definition["samples"] = samples
            opened = open_model(name, definition)
            suites = read_suites(suite or [], project, cut_off, samples=samples)
            for read in suites:
                for warning in reading_warnings(read.rows, judges):
                    say(f"{read.name}: {warning}", file=sys.stderr)
            evaluation = evaluate(
                suites,
                opened,
                judges,
                store=store,
                name=name,
                definition=definition,
                seed=seed,
                sample=limit,
                settings=decisions,
                null_answers=null_answers,
                folders=[project.folder / ANSWERS / model] if model else [],
            )
    for suite_name, result in evaluation.suites.items():
        for warning in thinking_warnings(result.responses, judges):
            say(f"{suite_name}: {warning}", file=sys.stderr)
    answers = evaluation.rows()
    results = {**evaluation.results(), "command": _command(context)}
    results["rows_sha256"] = rows_sha256(answers)
    write_run(
        out, results, evaluation.outcomes(), made=evaluation.made(), rows=answers, rows_path=rows
    )
    for result in evaluation.suites.values():
        say(f"{name} {result.label}: {result.count}")
    view = run_view(evaluation, decisions)
    print_rates(evaluation, view, wide=wide)
    if protocol is not None:
        for line in CATALOGUES.holding(protocol, "--protocol").lines(evaluation.protocol):
            say(line)
    for result in evaluation.suites.values():
        loops = sum(response["finish_reason"] == "loop" for response in result.responses)
        whole = result.numbers.whole
        for line in coverage_warnings(whole, loops) if whole else []:
            say(f"{name} {result.label}: {line}", file=sys.stderr)
    for line in [*prompt_readers(view), *verdict_changes(view)]:
        say(f"{name}: {line}", file=sys.stderr)
    print_summary(evaluation, view)
    errors = [row["error"] for row in answers if row["finish_reason"] == "error"]
    if len(errors) == len(answers):
        first = f"{errors[0]['type']}: {errors[0]['message']}"
        raise RefractError(f"all {len(errors)} answers are errors; the first: {first}")


def _command(context: typer.Context) -> list[str]:
    """The arguments of ``refract`` that say the same, but for what is written where, and shown."""
    words = ["run"]
    for option in context.command.params:
        value = context.params.get(str(option.name))
        if option.name in UNNAMED or value in (None, option.default):
            continue
        for part in value if isinstance(value, list | tuple) else [value]:
            words += [option.opts[0], str(part)]
    return words


def _where_to(
    name: str, definition: Mapping[str, Any], judges: Mapping[str, Mapping[str, Any]] | None
) -> str:
    """Where prompts and answers are sent, by a model and by judges (None: those of a protocol)."""

    def servers() -> str:
        needs = [need.rpartition(" to ")[2] for need in sorted(NEEDED) if need.startswith("send ")]
        NEEDED.clear()
        return ", ".join(needs) or "this machine"

    NEEDED.clear()
    open_model(name, definition)
    places = {"answers": servers()}
    if judges is not None:
        open_judges(judges)
        places["judgements"] = servers()
        if {*places.values()} == {"this machine"}:
            return "nothing leaves this machine: answers and judgements are made here"
    return "; ".join(f"{kind} from {place}" for kind, place in places.items())
