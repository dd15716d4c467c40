"""What the page asks people to label: of each model and suite the answers that
``refract label`` draws, in its order."""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict

from refract.agreement.corrections import label_plans
from refract.agreement.judged_answers import stored_answers
from refract.agreement.label_files import JoinedLabels, JudgedAnswer, draw
from refract.core.jsonl import sha256_file
from refract.rates.judge_error import JudgeError
from refract.report.page_data import PageData
from refract.report.view import SuiteLine, View

SEED = 0  # that of `refract label`
MOST = 100  # answers drawn of a model and suite, as `refract label` draws
TEXTS = ("prompt", "response")  # columns of its CSV that the page has already


class LabelDraw(TypedDict):
    """The answers of one model to one suite that are to be labelled, in the order of the draw.

    ``file`` is how the name of the CSV begins, ``options`` tell ``refract correct`` whose answers
    they are (names need no quotes). ``rows`` are the places of the answers in the page's columns,
    ``columns`` and ``cells`` what a CSV of ``refract label`` holds of each but for its texts: which
    answer it is, and how likely it was drawn. ``plan`` says what some labels would leave of each
    rate's interval."""

    model: str
    suite: str
    file: str
    options: str
    rows: list[int]
    columns: list[str]
    plan: list[str]
    cells: list[list[str]]


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
                draws.append(label_draw(view, line, answers, data=data))
    return draws


def label_draw(
    view: View, line: SuiteLine, answers: list[JudgedAnswer], data: PageData
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
    drawn = draw(answers, size=MOST, seed=SEED)
    facts = view.provenance[line.model]
    error = None
    if (facts.get("decisions") or {}).get("interval") != "prompts":
        error = JudgeError.of_suite(facts, line.suite)
    ids = {answer.key: answer.prompt_id for answer in answers}
    written = [name for name in drawn[0] if name not in TEXTS]
    return LabelDraw(
        model=model,
        suite=suite,
        file=f"{line.model}.{line.suite}",
        options=f"--model {line.model} --suite {line.suite}",
        rows=[places[ids[row["suite"], row["prompt_id"]]] for row in drawn],
        columns=written,
        plan=[*label_plans(answers, JoinedLabels({}), error, view.confidence).values()],
        cells=[[row[name] for name in written] for row in drawn],
    )
