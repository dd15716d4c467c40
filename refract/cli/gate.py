"""``refract gate``: thresholds as an exit code, and as JUnit XML for continuous integration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from refract.agreement.corrections import labelled_rates
from refract.agreement.label_files import LABEL_FILE
from refract.cli.options import PIPELINE, keep_inputs
from refract.core.errors import RefractError, UsageError
from refract.core.jsonl import write_bytes
from refract.core.params import decision_settings, grid
from refract.core.showing import printable, say
from refract.export.junit import JUnitCase, junit_case, junit_xml
from refract.project import project_root, read_project
from refract.project.inputs import changed_files
from refract.rates.judge_error import JUDGE_UNKNOWN, LABELS_ASK, JudgeError
from refract.rates.key import REFUSAL, Key
from refract.rates.rate import ALONE, HumanLabels, Rate, stale_text
from refract.rates.thresholds import FailOn, explained, fails, hidden_by_unjudged
from refract.rates.undecided import needed_text, would_decide
from refract.results.current import current_note
from refract.results.sources import Result, read_side


def gate(
    models: Annotated[list[str] | None, Argument(help="Models of the grid; default: all.")] = None,
    junit: Annotated[Path | None, Option(help="Also write JUnit XML here.")] = None,
    fail_on: Annotated[
        FailOn,
        Option(
            help="Exit with 1: inconclusive, unless every threshold is shown to be met; "
            "regression, if one is shown to be missed, or unjudged answers keep it from being met; "
            "missed, if one is shown to be missed."
        ),
    ] = "inconclusive",
) -> None:
    """Whether every threshold is met, missed, or neither is shown, by intervals and bounds.

    Example: refract gate --junit gate.xml
    """
    keep_inputs({"--junit": junit}, PIPELINE)
    try:
        rates, needed, unused = decided_rates(models or ())
    except (RefractError, OSError) as error:
        # Continuous integration shows this file; without one it would show the last run's, or nothing.
        if junit is not None:
            case = JUnitCase("refract", "gate", kind="error", message=printable(str(error)))
            write_bytes(junit, [junit_xml([case])])
        raise
    for rate in rates:
        if rate.decision != "met":
            title = "FAIL" if rate.decision == "missed" else "INCONCLUSIVE"
            say(f"{title} {rate.model} {rate.suite} {rate.name}: {explained(rate)}")
            if rate.key in needed:
                say(f"  {needed[rate.key]}")
    for place, note in unused.items():
        say(f"INCONCLUSIVE {place}: {note}")
    counts = Counter(rate.decision for rate in rates)
    summary = f"{counts['met']} of {len(rates)} thresholds met"
    for decision in ("missed", "inconclusive"):
        if counts[decision]:
            summary += f", {counts[decision]} {decision}"
    printed = [rate for rate in rates if rate.decision != "met"]
    for note in interval_notes(printed, decision_settings(project_root()).labels_ask or LABELS_ASK):
        say(note)
    say(summary)
    if junit is not None:
        kind = "failure" if fail_on == "inconclusive" else "skipped"
        cases = [junit_case(rate, fail_on) for rate in rates]
        cases += [JUnitCase(place, "labels", kind, note) for place, note in unused.items()]
        write_bytes(junit, [junit_xml(cases)])
    unshown = bool(unused) and fail_on == "inconclusive"
    raise typer.Exit(int(unshown or any(fails(rate, fail_on) for rate in rates)))


def interval_notes(rates: Sequence[Rate], asked: str) -> list[str]:
    """What the intervals of some rates allow for, and what the labels ``asked`` by which they do."""
    notes = []
    if any(rate.with_judge for rate in rates):
        notes.append(f"intervals are of prompts and judge, by labels that ask {asked}")
    if any(rate.alone_mark for rate in rates):
        notes.append(f"intervals with {ALONE} are of the prompts alone: {JUDGE_UNKNOWN}")
    return notes


def decided_rates(models: Sequence[str]) -> tuple[list[Rate], dict[Key, str], dict[str, str]]:
    """Every rate with a threshold of some models of the grid (none: all), what would decide
    those that the judge's error leaves open, and by model and suite why its labels are not in
    them. Raises :class:`RefractError` for numbers of other params."""
    root = project_root()
    params = read_project(root).params
    known = grid(params, "models")
    unknown = sorted(set(models) - set(known))
    if unknown:
        raise UsageError(f"no model {', '.join(unknown)} in the grid; it has {', '.join(known)}")
    side = read_side(root, models or known)
    reasons = [*side.reasons, *changed_files(params)]
    if reasons:
        raise RefractError(f"not decided: {current_note(reasons)}")
    confidence = decision_settings(root).confidence
    decided, needed = [], {}
    for result in side.results.values():
        for rate in result.rates:
            if rate.decision:
                decided.append(rate)
            if rate.decision == "inconclusive":
                text = _needed(rate, result, confidence)
                if text:
                    needed[rate.key] = text
    if not decided:
        raise UsageError("no suite of the grid has thresholds; set them in params.yaml")
    rates = [rate for result in side.results.values() for rate in result.rates]
    return decided, needed, _unused_labels(decided, rates)


def _unused_labels(decided: Sequence[Rate], rates: Sequence[Rate]) -> dict[str, str]:
    """By model and suite why its labels are not in the intervals that decide a rate of clean
    prompts, and what puts them there."""
    clean = {(rate.model, rate.suite) for rate in decided if not rate.key.perturbation}
    unused = {}
    for rate in rates:
        labels = rate.counts.labels
        if labels and not labels.are_random and (rate.model, rate.suite) in clean:
            unused[f"{rate.model}.{rate.suite}"] = _not_used(rate, labels)
    return unused


def _not_used(rate: Rate, labels: HumanLabels) -> str:
    file = LABEL_FILE.format(model=rate.model, suite=rate.suite)
    if labels.stale:
        return (
            f"the labels in {file} do not count, since {stale_text(labels.stale)} than today's: "
            f"`refract correct {file} --model {rate.model} --suite {rate.suite}` says what to do"
        )
    return (
        f"the labels in {file} do not count, since {labels.blank} drawn before the last of them "
        f"{'has' if labels.blank == 1 else 'have'} none: label these too"
    )


def _needed(rate: Rate, result: Result, confidence: float) -> str:
    """What would decide a threshold, or where labels are in it already, what says it; empty where it
    is not the judge's error that leaves it open."""
    own = [other for other in result.rates if other.suite == rate.suite]
    error = JudgeError.of_suite(result.provenance, rate.suite)
    names = labelled_rates(rate.key)
    used = [other for other in own if other.counts.labels and other.value is not None]
    if any(other.measure.corrects in names for other in used):
        if error is None:
            return ""
        place = f"--model {rate.model} --suite {rate.suite}"
        file = LABEL_FILE.format(model=rate.model, suite=rate.suite)
        return f"with the labels there are; what more would leave: refract correct {file} {place}"
    labels = would_decide(rate, error, confidence)
    if labels is None or hidden_by_unjudged(rate):
        return ""
    whole = next(other for other in own if other.measure == REFUSAL and other.key.is_headline)
    return needed_text(rate, labels, whole.counts.n)
