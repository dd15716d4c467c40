"""What the page asks people to label: of each model and suite the answers that
``refract label`` draws, in its order, and how many of them halve an interval."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

from refract.agreement.judged_answers import stored_answers
from refract.agreement.label_files import JudgedAnswer, draw
from refract.core.jsonl import sha256_file
from refract.rates.judge_error import JudgeError
from refract.rates.rate import Prompts, Rate, prompts_of
from refract.report.page_data import PageData
from refract.report.view import SuiteLine, View

SEED = 0  # that of `refract label`
MOST = 100  # answers drawn of a model and suite, as `refract label` draws
TEXTS = ("prompt", "response")  # columns of its CSV that the page has already
FARTHEST = 1000  # a plan asks for no more
FEW = 50  # labels where it is not known how many would halve an interval


class LabelDraw(TypedDict):
    """The answers of one model to one suite that are to be labelled, in the order of
    the draw.

    ``file`` is how the name of the CSV begins, ``options`` tell ``refract correct`` whose
    answers they are (names need no quotes). ``rows`` are the places of the answers in the
    page's columns, ``columns`` and ``cells`` what a CSV of ``refract label`` holds of each
    but for its texts: which answer it is, and how likely it was drawn. ``goal`` is how many
    to label, from the first, and ``why`` what so many labels give."""

    model: str
    suite: str
    file: str
    options: str
    rows: list[int]
    columns: list[str]
    cells: list[list[str]]
    goal: int
    why: str


def label_draws(root: Path, view: View, data: PageData) -> list[LabelDraw]:
    """What is to be labelled of each model and suite of a project's results.

    Nothing of a suite whose file is not what the numbers were made of, nor of one
    whose first judge does not label refusal."""
    draws: list[LabelDraw] = []
    for line in view.first_lines:
        facts = view.provenance[line.model]["suites"][line.suite]
        file = root / facts["definition"]["file"]
        if file.is_file() and sha256_file(file) == facts["sha256"]:
            params = {"suites": {line.suite: facts["definition"]}}
            answers = stored_answers(root, params, model=line.model, suite=line.suite)
            if answers:
                draws.append(label_draw(view, line, answers=answers, data=data))
    return draws


def label_draw(
    view: View, line: SuiteLine, answers: Sequence[JudgedAnswer], data: PageData
) -> LabelDraw:
    """What is to be labelled of one model's judged answers to one suite."""
    model = view.titles.model(line.model)
    suite = view.titles.suite(line.suite)
    named = data.names["model"].index(model), data.names["suite"].index(suite)
    columns = zip(data.columns["model"], data.columns["suite"], data.columns["id"], strict=True)
    places = {}
    for place, (its_model, its_suite, id_) in enumerate(columns):
        if (its_model, its_suite) == named:
            places[id_] = place
    order = draw(answers, size=FARTHEST, seed=SEED)
    by_key = {answer.key: answer for answer in answers}
    drawn = [by_key[row["suite"], row["prompt_id"]] for row in order]
    error = JudgeError.read(view.provenance[line.model]["suites"][line.suite].get("judge_error"))
    goal, why = label_plan(line.headlines, drawn, error, confidence=view.confidence)
    size = max(MOST, goal)
    written = [name for name in order[0] if name not in TEXTS]
    return LabelDraw(
        model=model,
        suite=suite,
        file=f"{line.model}.{line.suite}",
        options=f"--model {line.model} --suite {line.suite}",
        rows=[places[answer.prompt_id] for answer in drawn[:size]],
        columns=written,
        cells=[[row[name] for name in written] for row in order[:size]],
        goal=goal,
        why=why,
    )


def label_plan(
    headlines: Sequence[Rate | None],
    drawn: Sequence[JudgedAnswer],
    error: JudgeError | None,
    confidence: float,
) -> tuple[int, str]:
    """How many answers to label from the first, so that the widest interval of a
    model's headline rates on a suite is about halved, and what so many give.

    By what is known of the judge's error (:meth:`JudgeError.with_labels`), which is of
    answers drawn with the same chance: a draw by doubt needs fewer. Where labels
    cannot halve it, so many that :data:`MOST` are of the prompts that the rate is
    over."""
    known: list[tuple[float, Rate]] = []
    for rate in headlines:
        if error and rate and rate.value is not None and rate.shown and error.knows(_prompts(rate)):
            known.append(((rate.shown.high - rate.shown.low) / 2, rate))
    if error is None or not known:
        return min(FEW, len(drawn)), "to correct its rates; by how much is not known beforehand"
    half, widest = max(known, key=lambda entry: entry[0])
    prompts = _prompts(widest)
    share = widest.value or 0.0
    n = widest.counts.n

    def half_with(labels: int) -> float:
        return error.with_labels(share, n, labels=labels, prompts=prompts, confidence=confidence)

    enough = range(1, min(n, MOST))
    needed = 1 + bisect_left(enough, True, key=lambda labels: half_with(labels) <= half / 2)
    goal = counted = 0
    while counted < needed and goal < len(drawn):
        counted += drawn[goal].category == widest.measure.category
        goal += 1
    then = half_with(max(1, counted))
    effect = "halve" if then <= half / 2 else "narrow"
    return goal, f"to {effect} the interval of {widest.measure.title}, ±{half:.2f} to ±{then:.2f}"


def _prompts(rate: Rate) -> Prompts:
    return prompts_of([rate.measure.category or ""])
