"""What the page asks people to label: of each model and suite the answers that
``refract label`` draws, in its order, and how many of them halve an interval."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TypedDict

from refract.agreement.judged_answers import stored_answers
from refract.agreement.label_files import JudgedAnswer, draw
from refract.core.jsonl import sha256_file
from refract.rates.judge_error import JudgeError
from refract.rates.rate import Prompts, Rate, prompts_of
from refract.report.measures import MEASURES
from refract.report.page_data import PageData
from refract.report.view import Summary, View, summaries

SEED = 0  # that of `refract label`
MOST = 100  # answers drawn of a model and suite, as `refract label` draws
TEXTS = ("prompt", "response")  # columns of its CSV that the page has already
FARTHEST = 1000  # a plan asks for no more
FEW = 50  # labels where it is not known how many would halve an interval


class LabelDraw(TypedDict):
    """The answers of one model to one suite that are to be labelled, in the order of
    the draw."""

    model: str
    suite: str
    file: str
    """How the name of the CSV begins."""

    options: str
    """What tells ``refract correct`` whose answers they are. Names need no quotes."""

    rows: list[int]
    """The places of the answers in the page's columns."""

    columns: list[str]
    cells: list[list[str]]
    """What a CSV of ``refract label`` holds of each but for its texts: which answer it
    is, and how likely it was drawn."""

    goal: int
    """How many to label, from the first."""

    why: str
    """What so many labels give."""


class Plan(NamedTuple):
    """Label the first ``goal`` answers of a draw, and ``why``."""

    goal: int
    why: str


def label_draws(root: Path, view: View, data: PageData) -> list[LabelDraw]:
    """What is to be labelled of each model and suite of a project's results.

    Nothing of a suite whose file is not what the numbers were made of, nor of one
    whose first judge does not label refusal."""
    draws: list[LabelDraw] = []
    for line in summaries(view):
        facts = view.provenance[line.model]["suites"][line.suite]
        file = root / facts["definition"]["file"]
        if file.is_file() and sha256_file(file) == facts["sha256"]:
            params = {"suites": {line.suite: facts["definition"]}}
            answers = stored_answers(root, params, model=line.model, suite=line.suite)
            if answers:
                draws.append(label_draw(view, line, answers, data))
    return draws


def label_draw(
    view: View, line: Summary, answers: Sequence[JudgedAnswer], data: PageData
) -> LabelDraw:
    """What is to be labelled of one model's judged answers to one suite."""
    model, suite = view.titles.model(line.model), view.titles.suite(line.suite)
    of_model, of_suite = data.names["model"].index(model), data.names["suite"].index(suite)
    columns = zip(*(data.columns[key] for key in ("model", "suite", "id")), strict=True)
    places = {}
    for place, (its_model, its_suite, id_) in enumerate(columns):
        if (its_model, its_suite) == (of_model, of_suite):
            places[id_] = place
    order = draw(answers, size=FARTHEST, seed=SEED)
    by_key = {answer.key: answer for answer in answers}
    drawn = [by_key[row["suite"], row["prompt_id"]] for row in order]
    error = JudgeError.read(view.provenance[line.model]["suites"][line.suite].get("judge_error"))
    plan = label_plan(line.headlines, drawn, error, confidence=view.confidence)
    size = max(MOST, plan.goal)
    written = [name for name in order[0] if name not in TEXTS]
    return LabelDraw(
        model=model,
        suite=suite,
        file=f"{line.model}.{line.suite}",
        options=f"--model {line.model} --suite {line.suite}",
        rows=[places[answer.prompt_id] for answer in drawn[:size]],
        columns=written,
        cells=[[row[name] for name in written] for row in order[:size]],
        goal=plan.goal,
        why=plan.why,
    )


def label_plan(
    headlines: Sequence[Rate | None],
    drawn: Sequence[JudgedAnswer],
    error: JudgeError | None,
    confidence: float,
) -> Plan:
    """How many answers to label from the first, so that the widest interval of a
    model's headline rates on a suite is about halved.

    By what is known of the judge's error (:meth:`JudgeError.with_labels`), which is of
    answers drawn with the same chance: a draw by doubt needs fewer. Where labels
    cannot halve it, so many that :data:`MOST` are of the prompts that the rate is
    over."""
    known = []
    for rate in headlines:
        if error and rate and rate.value is not None and rate.shown and error.knows(_prompts(rate)):
            known.append(rate)
    if error is None or not known:
        goal = min(FEW, len(drawn))
        return Plan(goal, "to correct its rates; by how much is not known beforehand")
    widest = max(known, key=_half)
    prompts, share, n = _prompts(widest), widest.value or 0.0, widest.counts.n
    wanted = _half(widest) / 2

    def half_with(labels: int) -> float:
        return error.with_labels(share, n, labels, prompts, confidence)

    enough = range(1, min(n, MOST))
    needed = 1 + bisect_left(enough, True, key=lambda labels: half_with(labels) <= wanted)
    goal = counted = 0
    while counted < needed and goal < len(drawn):
        counted += drawn[goal].category == widest.measure.category
        goal += 1
    then = half_with(max(1, counted))
    effect = "halve" if then <= wanted else "narrow"
    name = MEASURES[widest.name]
    return Plan(goal, f"to {effect} the interval of {name}, ±{_half(widest):.2f} to ±{then:.2f}")


def _prompts(rate: Rate) -> Prompts:
    return prompts_of([rate.measure.category or ""])


def _half(rate: Rate) -> float:
    assert rate.shown is not None
    return (rate.shown.high - rate.shown.low) / 2
