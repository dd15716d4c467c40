"""``refract run``: a model on some suites, or by a published protocol, without DVC."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from refract.cli.options import Confidence, JudgeBaseUrl, JudgeModel, files_named, keep_inputs
from refract.cli.printing import print_table, print_text
from refract.core.errors import RefractError, UsageError
from refract.core.showing import say
from refract.core.types import Row
from refract.core.vocabulary import EXCLUDED

if TYPE_CHECKING:
    from refract.evaluate import Evaluation
    from refract.project import Project

# Options that are settings of the model's adapter.
SETTINGS = ["adapter", "model_id", "path", "base_url", "system_prompt", "temperature", "max_tokens"]


def run(
    context: typer.Context,
    *,
    suite: list[str] | None = None,
    protocol: str | None = None,
    limit: Annotated[int | None, typer.Option(min=1)] = None,
    model: str | None = None,
    adapter: str | None = None,
    model_id: str | None = None,
    base_url: str | None = None,
    path: str | None = None,
    name: str | None = None,
    system_prompt: str | None = None,
    temperature: Annotated[float | None, typer.Option(min=0)] = None,
    max_tokens: Annotated[int | None, typer.Option(min=1)] = None,
    samples: Annotated[int | None, typer.Option(min=1)] = None,
    seed: int = 0,
    engine: Literal["process", "ray"] | None = None,
    set_: Annotated[list[str] | None, typer.Option("--set")] = None,
    judge: list[str] | None = None,
    judge_model: JudgeModel = None,
    judge_base_url: JudgeBaseUrl = None,
    cut_off: Literal["judged", "excluded"] | None = None,
    out: Annotated[Path, typer.Option()],
    rows: Path | None = None,
    confidence: Confidence = None,
    wide: Annotated[bool, typer.Option("--wide")] = False,
) -> None:
    """Measure one model on one or more suites, or by a published protocol, without DVC; exit with 1 if
    every answer is an error.

    Example: refract run --adapter hf --model-id FOLDER --suite harmful_helpful --out results.json

    Args:
        [What to measure]
        suite <NAME|FILE>: A suite of params.yaml or a JSONL file; with --protocol its publisher's file.
          Repeatable.
        protocol <NAME[@VERSION]>: A published protocol (`refract protocols`); other options deviate.
        limit <N>: Only so many prompts of each suite, drawn by --seed.
        [With what model]
        model <NAME>: A model of params.yaml; other options override it.
        adapter <anthropic|hf|openai|recorded|synthetic|vllm>: How it is reached; servers of any kind:
          openai and --base-url.
        model_id <ID>: Folder, hub id or the provider's name for it.
        base_url <URL>: Its server.
        path <FILE>: Answers of a recorded model.
        name <NAME>: What results call it; default: its name or the end of its id.
        [How it answers]
        system_prompt <TEXT>: System prompt.
        temperature <T>: 0 is greedy; above 0 each prompt is sampled.
        max_tokens <N>: Longer answers are cut off.
        samples <K>: Answers for each prompt; above 1 needs a temperature above 0.
        seed <N>: Seed of every draw.
        engine: Whether this process answers, or actors of Ray; default: as params.yaml says.
        set_ <KEY=VALUE>: Any other setting of the adapter (YAML), such as device=cuda. Repeatable.
        [Who judges]
        judge <NAME>: A judge of params.yaml, a kind, or llm (--judge-model); default: refusal, or the
          protocol's, and refusal before one that labels something else. Repeatable.
        judge_model:
        judge_base_url:
        cut_off: Whether answers cut off at --max-tokens are judged by what they say, or left out, which
          makes rates too high; default: as the suite says, else judged.
        [Output]
        out <FILE>: The results (JSON).
        rows <FILE>: Also prompts, answers and verdicts (JSONL); as NAME.rows.jsonl beside NAME.json they
          are checked and exported with it.
        wide: All measures, also without cut-off answers, and more digits.
        confidence:
    """
    from refract.evaluate import evaluate, read_suites, rows_sha256
    from refract.evaluate.protocol_run import Asked, run_protocol
    from refract.judges import language_warnings
    from refract.models import open_model
    from refract.models.answering import ANSWERS
    from refract.models.store import open_store
    from refract.project import find_model, find_project, find_suite
    from refract.rates.clean_prompts import MIXED_MEASURE
    from refract.rates.counting import coverage_warnings
    from refract.results.sources import run_files, write_run

    if engine is not None:
        os.environ["REFRACT_ENGINE"] = engine
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
    if protocol is not None and len(judge or []) > 1:
        raise UsageError(f"a --protocol takes one --judge (got {', '.join(judge or [])})")
    judges = _judges(judge, project, judge_model, judge_base_url, alone=protocol is not None)
    level = float(confidence or 0.95)
    used = [find_suite(one, project)[1] for one in ([] if protocol else suite or [])]
    published = [one.rpartition("=")[2] for one in suite or [] if protocol]
    beside = {} if out.is_dir() else run_files(out)
    published += map(str, files_named(definition, judges, used))
    keep_inputs({"--out": out, **beside, "--rows": rows}, published)
    say(_where_to(name, definition, judges if protocol is None or judge else None))
    with open_store() as store:
        if protocol is not None:
            base = {**named, "adapter": definition["adapter"]}
            by = next(iter(judges.items())) if judge else None
            asked = Asked(base, settings, suite or [], by, samples, cut_off)
            evaluation = run_protocol(
                protocol, name, asked, store, seed=seed, sample=limit, confidence=level
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
                sample=limit,
                confidence=level,
                folders=[project.folder / ANSWERS / model] if model else [],
            )
    answers = evaluation.rows()
    results = {**evaluation.results(), "command": _command(context)}
    results["rows_sha256"] = rows_sha256(answers)
    write_run(out, results, evaluation.outcomes(), evaluation.made(), answers, rows_path=rows)
    for label, result in evaluation.suites.items():
        say(f"{name} {label}: {result.count}")
    _print_rates(evaluation, level, wide=wide)
    if evaluation.protocol is not None:
        _print_protocol(evaluation.protocol)
    for result in evaluation.suites.values():
        loops = sum(response["finish_reason"] == "loop" for response in result.responses)
        for rate in result.rates.table:
            mixed = rate.measure == MIXED_MEASURE and not rate.group
            for warning in coverage_warnings(rate, loops) if mixed else ():
                say(f"{name} {result.label}: {warning}", file=sys.stderr)
    _print_summary(evaluation)
    errors = [row["error"] for row in answers if row["finish_reason"] == "error"]
    if len(errors) == len(answers):
        first = f"{errors[0]['type']}: {errors[0]['message']}"
        raise RefractError(f"all {len(errors)} answers are errors; the first: {first}")


def demo(limit: Annotated[int, typer.Option(min=1)] = 60, seed: int = 0) -> None:
    """Measure the synthetic model on a sample of a default suite and print the result.

    Example: refract demo

    Args:
        limit: How many prompts to draw.
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
        sample=limit,
    )
    _print_rates(evaluation, 0.95)
    _print_summary(evaluation)


def _yaml_settings(pairs: Sequence[str]) -> dict[str, Any]:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    settings = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        try:
            settings[key] = YAML(typ="safe", pure=True).load(text)
        except (YAMLError, RecursionError):
            equals = ""
        if not equals or not key:
            raise UsageError(f"--set takes key=value with a YAML value (got {pair!r})")
    return settings


def _command(context: typer.Context) -> list[str]:
    """The arguments of ``refract`` that say the same, but for what is written where, and shown."""
    words = ["run"]
    for option in context.command.params:
        value = context.params.get(str(option.name))
        if option.name in ("out", "rows", "wide", "engine") or value in (None, option.default):
            continue
        for each in value if isinstance(value, list | tuple) else [value]:
            words += [option.opts[0], str(each)]
    return words


def _print_rates(evaluation: Evaluation, confidence: float, *, wide: bool = False) -> None:
    """The rates of a run over whole suites, and of its samples; ``wide``: those too that follow from
    others, and without cut-off answers."""
    from refract.core.vocabulary import SAMPLES_FIELD
    from refract.rates.counting import WITHOUT_CUT_OFF
    from refract.report.view import View
    from refract.report.wording import clusters_text, kinds_text, percent, rate_text, short_text

    groups = {"": "", SAMPLES_FIELD: ", k = {}"}
    groups |= {WITHOUT_CUT_OFF.field: ", without cut-off answers"} if wide else {}
    rows = []
    view = View({evaluation.model: evaluation.rates}, {evaluation.model: evaluation.provenance})
    for rate in view.every:
        counts, group = rate.counts, rate.group
        if group.field not in groups or rate.measure == "refusal_difference_to_pair":
            continue
        if wide or rate.measure != "under_refusal_rate":  # 1 - harmful_refusal_rate
            measure = rate.measure + groups[group.field].format(group.value)
            of = str(counts.n) if counts.successes is None else f"{counts.successes}/{counts.n}"
            shown = [rate_text(rate)] if wide else [short_text(rate), of + clusters_text(rate)]
            suite = rate.suite if len(evaluation.suites) > 1 else ""
            row = [suite, measure, *shown, kinds_text(counts.excluded), str(counts.cut_off or 0)]
            rows.append(row)
    of_rate = [f"rate [{percent(confidence)}]", *([] if wide else ["counts"])]
    header = ["suite", "measure", *of_rate, "not judged", "cut off"]
    # The last columns where there is something in them.
    kept = [n for n in range(len(header)) if any(row[n] not in ("", "0") for row in rows)]
    print_table([header[n] for n in kept], [[row[n] for n in kept] for row in rows])
    print_text(view.interval_note if wide else view.brief_interval_note)


def _print_summary(evaluation: Evaluation) -> None:
    """One line for each suite: what was refused, and how much was not judged."""
    from refract.report.view import CATEGORY_OF
    from refract.report.wording import short_text

    for result in evaluation.suites.values():
        whole = {rate.measure: rate for rate in result.rates.table if not rate.group}
        judged = {name: rate for name, rate in whole.items() if rate.value is not None}
        refused = [
            f"{short_text(judged[measure])} of {judged[measure].counts.n} {category}"
            for measure, category in CATEGORY_OF.items()
            if measure in judged
        ]
        parts = [f"refused {', '.join(refused)}"] if refused else []
        others = {"discrimination", *([] if refused else list(judged)[:3])}
        parts += [f"{name} {short_text(rate)}" for name, rate in judged.items() if name in others]
        unjudged = sum(row["outcome"] in EXCLUDED for row in result.rows())
        parts += [f"{unjudged} not judged"] if unjudged else []
        told = "; ".join(parts) or "nothing was judged"
        print_text(f"{evaluation.model}, {result.label}: {told}")


def _judges(
    asked: Sequence[str] | None,
    project: Project,
    model: str | None,
    base_url: str | None,
    *,
    alone: bool,
) -> dict[str, dict[str, Any]]:
    """The judges of a run; each that asks a model asks ``model``. Before one that labels something else
    than refusal stands the default, unless it is to be ``alone``."""
    from refract.core.registry import find
    from refract.core.vocabulary import FAMILIES
    from refract.judges import JUDGES, SHIPPED, open_judge
    from refract.project import MODEL_JUDGE, find_judge

    names = asked or [SHIPPED[0] if model is None else MODEL_JUDGE]
    judges: dict[str, dict[str, Any]] = {}
    for name in dict.fromkeys(names):
        given = find_judge(name, project, model, base_url)
        kind = find(JUDGES, given.get("kind"), f"judges.{name}: kind")
        if len(names) > 1 and "model" not in kind.Settings.model_fields:
            given.pop("model", None)
        if not (judges or alone or FAMILIES[open_judge(name, given).FAMILY].tells_refusal):
            judges[SHIPPED[0]] = find_judge(SHIPPED[0], project)
        judges[name] = given
    if model is not None and not any("model" in given for given in judges.values()):
        raise UsageError(f"--judge-model: none of {', '.join(names)} asks a model")
    return judges


def _where_to(
    name: str, definition: Mapping[str, Any], judges: Mapping[str, Mapping[str, Any]] | None
) -> str:
    """Where prompts and answers are sent, by a model and by judges (None: those of a protocol)."""
    from refract.core.consent import NEEDED
    from refract.judges import open_judges
    from refract.models import open_model

    def servers() -> list[str]:
        needs = [need.rpartition(" to ")[2] for need in sorted(NEEDED) if need.startswith("send ")]
        NEEDED.clear()
        return needs

    NEEDED.clear()
    open_model(name, definition)
    places = {"answers": servers()}
    if judges is not None:
        open_judges(judges)
        places["judgements"] = servers()
        if not any(places.values()):
            return "nothing leaves this machine: answers and judgements are made here"
    return "; ".join(f"{what} from {', '.join(x) or 'this machine'}" for what, x in places.items())


def _print_protocol(protocol: Row) -> None:
    """A run's deviations from its protocol, and what is not known of it."""
    say(f"protocol {protocol['name']}: {protocol['of']}")
    for label, part in protocol["parts"].items():
        deviations = part["deviations"]
        say(f"  {label}: judged by {part['judge']}; deviations: {len(deviations) or 'none'}")
        for kind, phrases in (("deviation", deviations), ("unknown", part["unknown"])):
            for phrase in phrases:
                say(f"    {kind}: {phrase}")
    for limit in protocol["limits"]:
        say(f"  limit: {limit}")
