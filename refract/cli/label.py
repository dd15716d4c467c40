"""``refract label``: a sample of a run's answers for people to label."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from refract.agreement.corrections import label_plans
from refract.agreement.label_files import LABEL_FILE, JoinedLabels, draw, write_sample
from refract.cli.options import keep_inputs
from refract.core.errors import UsageError
from refract.core.showing import say
from refract.evaluate.labelled import run_answers, run_error
from refract.project import project_root
from refract.rates.judge_error import JUDGE_NOTE


def label(
    model: Annotated[str | None, Option(help="A model whose results the pipeline has.")] = None,
    suite: Annotated[str | None, Option(help="Its suite; or the suite of --rows.")] = None,
    rows: Annotated[
        Path | None, Option(help="Instead of --model: the --rows file of `refract run`.")
    ] = None,
    n: Annotated[int, Option(min=1, help="How many answers to draw.")] = 100,
    seed: Annotated[int, Option(help="Seed of the draw.")] = 0,
    out: Annotated[
        Path | None, Option(help="The CSV; default: data/labels/MODEL/SUITE.csv.")
    ] = None,
) -> None:
    """Draw a sample of a run's judged answers as a CSV for people to label.

    Where the judge gives probabilities, answers whose label teaches more are drawn more often.

    Example: refract label --model synthetic --suite harmful_helpful --n 100
    """
    keep_inputs({"--out": out}, [rows])
    answers = run_answers(model, suite, rows)
    if not answers:
        raise UsageError("the run has no judged answer to label")
    if out is None:
        if model is None:
            raise UsageError("--rows needs --out")
        out = project_root() / LABEL_FILE.format(model=model, suite=suite)
    if out.exists():
        raise UsageError(f"{out} exists and may hold labels; name another file with --out")
    sample = draw(answers, n, seed)
    write_sample(out, sample)
    doubt = ", drawn by the judge's doubt" if "size" in sample[0] else ""
    count = f"{len(sample)} of {len(answers)} judged answers{doubt}"
    say(f"{out}: {count}, to be labelled in this order")
    plans = label_plans(answers, JoinedLabels({}), run_error(answers, model, rows))
    for plan in plans.values():
        say(plan)
    if plans:
        say(f"{JUDGE_NOTE}. After these labels, refract correct says what more would leave.")
