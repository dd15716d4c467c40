"""``refract run``: a model on some suites, or by a published protocol, without DVC."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from refract.cli.options import Confidence, JudgeBaseUrl, JudgeModel, files_named, keep_inputs
from refract.cli.printing import print_table
from refract.core.errors import RefractError, UsageError
from refract.core.showing import say
from refract.core.types import Row

if TYPE_CHECKING:
    from refract.evaluate import Evaluation

# Options that are settings of the model's adapter.
SETTINGS = (
    *("adapter", "model_id", "path", "base_url", "system_prompt", "temperature", "max_tokens"),
)


def run(
    context: typer.Context,
    out: Annotated[Path, typer.Option()],
    suite: list[str] | None = None,
    protocol: str | None = None,
    model: str | None = None,
    name: str | None = None,
    adapter: str | None = None,
    model_id: str | None = None,
    path: str | None = None,
    base_url: str | None = None,
    system_prompt: str | None = None,
    seed: int = 0,
    temperature: Annotated[float | None, typer.Option(min=0)] = None,
    max_tokens: Annotated[int | None, typer.Option(min=1)] = None,
    sample: Annotated[int | None, typer.Option(min=1)] = None,
    samples: Annotated[int | None, typer.Option(min=1)] = None,
    judge: str | None = None,
    judge_model: JudgeModel = None,
    judge_base_url: JudgeBaseUrl = None,
    cut_off: Literal["judged", "excluded"] | None = None,
    set_: Annotated[list[str] | None, typer.Option("--set")] = None,
    confidence: Confidence = None,
    rows: Path | None = None,
) -> None:
    """Measure one model on one or more suites, or by a published protocol, without DVC; exit with 1 if
    every answer is an error.

    Example: refract run --adapter hf --model-id FOLDER --suite harmful_helpful --out results.json

    Args:
        out: Where the results go (JSON).
        suite: A suite of params.yaml, or a JSONL file; with --protocol its publisher's file, as
          PART=FILE where the protocol has several. Repeatable.
        protocol: A published protocol, as NAME or NAME@VERSION (`refract protocols` lists them); other
          options change it, and are listed as deviations.
        model: A model of params.yaml; other options override it.
        name: What results call the model; default: its name or the end of its id.
        adapter: How the model is reached; an unknown name lists all.
        model_id: Folder, hub id or provider's model name.
        path: File with the answers of a recorded model.
        base_url: Server of an API model.
        system_prompt: System prompt.
        seed: Seed of every draw.
        temperature: 0 is greedy; above 0 each row samples.
        max_tokens: Longer answers are cut off, and judged by what they say.
        sample: Draw this many prompts of each suite (seeded).
        samples: Samples per prompt; above 1 needs a temperature above 0.
        judge: A judge of params.yaml, a kind, or llm (a model: --judge-model); default: refusal, or
          the protocol's.
        cut_off: Answers cut off at the token limit: judged by what they say, or left out, which makes
          rates of refusal too high. Default: as each suite says, else judged.
        set_: Any other setting of the adapter, as key=value (YAML), such as device=cuda. Repeatable.
        rows: Also write prompts, answers and verdicts here (JSONL); with --out NAME.json as
          NAME.rows.jsonl, which is then checked against it and exported with it.
    """
    from refract.evaluate import evaluate, read_suites, rows_sha256
    from refract.evaluate.protocol_run import Asked, run_protocol
    from refract.judges import language_warnings
    from refract.models import open_model
    from refract.models.answering import ANSWERS
    from refract.models.store import open_store
    from refract.project import MODEL_JUDGE, find_judge, find_model, find_project, find_suite
    from refract.rates.clean_prompts import MIXED_MEASURE
    from refract.rates.counting import coverage_warnings
    from refract.results.sources import run_files, write_run

    project = find_project()
    settings = {key: context.params[key] for key in SETTINGS if context.params[key] is not None}
    settings |= _yaml_settings(set_ or [])
    if model is None and adapter is None:
        raise UsageError("name a model of params.yaml with --model, or an adapter with --adapter")
    named = {} if model is None else find_model(model, project)
    definition = named | settings
    name = name or model or Path(str(definition.get("model_id", definition["adapter"]))).name
    if not name.strip() or not name.isprintable():
        raise UsageError(f"--name takes a printable text that is not empty (got {name!r})")
    if protocol is None and not suite:
        raise UsageError("name a suite with --suite, or a published protocol with --protocol")
    if protocol is not None and judge is None and judge_model is not None:
        raise UsageError("--judge-model with --protocol: name the judge too, as in --judge llm")
    wanted = judge or ("refusal" if judge_model is None else MODEL_JUDGE)
    judges = {wanted: find_judge(wanted, project, judge_model, judge_base_url)}
    level = float(confidence or 0.95)
    used = [find_suite(one, project)[1] for one in ([] if protocol else suite or [])]
    published = [one.rpartition("=")[2] for one in suite or [] if protocol]
    beside = {} if out.is_dir() else run_files(out)
    keep_inputs(
        {"--out": out, **beside, "--rows": rows},
        [*files_named(definition, judges, used), *published],
    )
    with open_store() as store:
        if protocol is not None:
            asked = Asked(
                {**named, "adapter": definition["adapter"]},
                settings,
                suite or [],
                (judge, judges[judge]) if judge else None,
                samples,
                cut_off,
            )
            evaluation = run_protocol(
                protocol, name, asked, store, seed=seed, sample=sample, confidence=level
            )
        else:
            if samples is not None:
                definition["samples"] = samples
            opened = open_model(name, definition)
            suites = read_suites(suite or [], project, cut_off, samples)
            for read in suites:
                for warning in language_warnings(read.rows, judges):
                    say(f"{read.name}: {warning}", file=sys.stderr)
            evaluation = evaluate(
                suites,
                opened,
                judges,
                store,
                name=name,
                definition=definition,
                seed=seed,
                sample=sample,
                confidence=level,
                folders=[project.folder / ANSWERS / model] if model else [],
            )
    answers = evaluation.rows()
    results = {**evaluation.results(), "command": _command(context)}
    results["rows_sha256"] = rows_sha256(answers)
    write_run(out, results, evaluation.outcomes(), evaluation.made(), answers, rows_path=rows)
    for label, result in evaluation.suites.items():
        say(f"{name} {label}: {result.count}")
    _print_rates(evaluation, level)
    if evaluation.protocol is not None:
        _print_protocol(evaluation.protocol)
    for result in evaluation.suites.values():
        for rate in result.rates.table:
            if rate.measure == MIXED_MEASURE and not rate.group:
                ends = [response["finish_reason"] for response in result.responses]
                for warning in coverage_warnings(rate, ends.count("loop")):
                    say(f"{name} {result.label}: {warning}", file=sys.stderr)
    errors = [row["error"] for row in answers if row["finish_reason"] == "error"]
    if len(errors) == len(answers):
        raise RefractError(
            f"all {len(errors)} answers are errors; the first: {errors[0]['type']}: "
            f"{errors[0]['message']}"
        )


def demo(sample: Annotated[int, typer.Option(min=1)] = 60, seed: int = 0) -> None:
    """Measure the synthetic model on a sample of a default suite and print the result.

    Example: refract demo

    Args:
        sample: How many prompts to draw.
        seed: Seed of the draw.
    """
    from refract.evaluate import evaluate, read_suites
    from refract.models import open_model
    from refract.models.store import ResponseStore
    from refract.project import default_project, find_model

    defaults = default_project()
    definition = find_model("synthetic", defaults)
    evaluation = evaluate(
        read_suites(["harmful_helpful"], defaults),
        open_model("synthetic", definition),
        {"rules": {"kind": "rules"}},
        ResponseStore(None),
        name="synthetic",
        definition=definition,
        seed=seed,
        sample=sample,
    )
    _print_rates(evaluation, 0.95)


def _yaml_settings(pairs: Sequence[str]) -> dict[str, Any]:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    settings = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        try:
            value = YAML(typ="safe", pure=True).load(text)
        except (YAMLError, RecursionError):
            equals = ""
        if not equals or not key:
            raise UsageError(f"--set takes key=value with a YAML value (got {pair!r})")
        settings[key] = value
    return settings


def _command(context: typer.Context) -> list[str]:
    """The arguments of ``refract`` that say the same, but for the files that are written."""
    words = ["run"]
    for option in context.command.params:
        value = context.params.get(str(option.name))
        if option.name not in ("out", "rows") and value not in (None, option.default):
            for each in value if isinstance(value, list | tuple) else [value]:
                words += [option.opts[0], str(each)]
    return words


def _print_rates(evaluation: Evaluation, confidence: float) -> None:
    """The rates of a run over whole suites, and of its samples."""
    from refract.core.vocabulary import SAMPLES_FIELD
    from refract.rates.counting import WITHOUT_CUT_OFF
    from refract.report.view import View
    from refract.report.wording import MISSING, clusters_text, kinds_text, percent, three

    groups = {"": "", WITHOUT_CUT_OFF.field: ", without cut-off answers", SAMPLES_FIELD: ", k = {}"}
    rows = []
    view = View({evaluation.model: evaluation.rates}, {evaluation.model: evaluation.provenance})
    for rate in view.every:
        counts, group = rate.counts, rate.group
        if group.field in groups and rate.measure != "refusal_difference_to_pair":
            measure = rate.measure + groups[group.field].format(group.value)
            value = MISSING if rate.value is None else three(rate.value)
            ends = " to ".join(map(three, rate.shown or ())) or MISSING
            of = str(counts.n) if counts.successes is None else f"{counts.successes}/{counts.n}"
            of += clusters_text(rate)
            cells = [rate.suite, measure, value, ends, of, kinds_text(counts.excluded)]
            rows.append([*cells, str(counts.cut_off or 0)])
    interval = f"{percent(confidence)} interval"
    header = ["suite", "measure", "rate", interval, "counts", "not judged", "cut off"]
    # The last column where there is something in it.
    columns = len(header) - all(row[-1] == "0" for row in rows)
    print_table(header[:columns], [row[:columns] for row in rows])
    say(view.interval_note)


def _print_protocol(protocol: Row) -> None:
    """A run's deviations from its protocol, and what is not known of it."""
    say(f"protocol {protocol['name']}: {protocol['of']}")
    for label, part in protocol["parts"].items():
        say(
            f"  {label}: judged by {part['judge']}; deviations: {len(part['deviations']) or 'none'}"
        )
        for phrase in part["deviations"]:
            say(f"    deviation: {phrase}")
        for phrase in part["unknown"]:
            say(f"    unknown: {phrase}")
    for limit in protocol["limits"]:
        say(f"  limit: {limit}")
