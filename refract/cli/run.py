"""``refract run``: a model on some suites, without DVC."""

from __future__ import annotations

import inspect
import os
import sys
from typing import Any

from refract.cli.options import keep_inputs
from refract.cli.printing import print_table
from refract.cli.run_request import RunOptions, RunRequest
from refract.core.errors import RefractError
from refract.core.params import DecisionSettings, decision_settings, null_settings
from refract.core.showing import say
from refract.core.vocabulary import SAMPLES_FIELD
from refract.evaluate import Evaluation, evaluate, nothing_to_judge, read_suites, rows_sha256
from refract.judges import open_judges, reading_warnings, thinking_warnings
from refract.models import SERVERS, open_model
from refract.models.answering import ANSWERS
from refract.models.store import open_store
from refract.rates.counting import coverage_warnings
from refract.rates.key import NULL_DIFFERENCE, WITHOUT_PROVIDER
from refract.report.judge_notes import prompt_readers
from refract.report.markdown import shown_table
from refract.report.view import View
from refract.report.wording import clusters_text, not_judged, percent, short_text
from refract.results.sources import run_files, write_run

# Rates that follow from others, and are not printed.
HIDDEN = ("refusal_difference_to_pair", "under_refusal_rate")


def run(**options: Any) -> None:
    """Measure one model on one or more suites, without DVC; exit with 1 if no answer has anything to
    judge.

    Example: refract run --adapter hf --model-id FOLDER --suite harmful_helpful --out results.json
    """
    given = RunOptions(**options)
    if given.no_store:
        os.environ["REFRACT_CACHE"] = "off"
    request = RunRequest(given)
    settings = decision_settings(request.project.folder)
    beside = {} if given.out.is_dir() else run_files(given.out)
    keep_inputs({"--out": given.out, **beside, "--rows": given.rows}, request.inputs())
    say(_where_to(request))
    evaluation = evaluated(request, settings)
    answers = evaluation.rows()
    results = {**evaluation.results(), "command": given.command()}
    results["rows_sha256"] = rows_sha256(answers)
    write_run(
        given.out,
        results,
        evaluation.outcomes(),
        made=evaluation.made(),
        rows=answers,
        rows_path=given.rows,
    )
    print_run(request, evaluation)
    problem = nothing_to_judge(answers)
    if problem:
        raise RefractError(problem)


# Typer reads the options off this.
vars(run)["__signature__"] = inspect.signature(RunOptions, eval_str=True)


def evaluated(request: RunRequest, settings: DecisionSettings) -> Evaluation:
    """What comes of a request. Prints what judges cannot read before anything is asked."""
    options, project, definition = request.options, request.project, request.definition
    with open_store() as store:
        if options.samples is not None:
            definition = {**definition, "samples": options.samples}
        opened = open_model(request.name, definition)
        suites = read_suites(options.suite, project, samples=options.samples)
        for read in suites:
            for warning in reading_warnings(read.rows, request.judges):
                say(f"{read.name}: {warning}", file=sys.stderr)
        return evaluate(
            suites,
            opened,
            request.judges,
            store=store,
            name=request.name,
            definition=definition,
            seed=options.seed,
            sample=options.limit,
            settings=settings,
            null_answers=null_settings(project.params),
            folders=[project.folder / ANSWERS / options.model] if options.model else [],
        )


def print_run(request: RunRequest, evaluation: Evaluation) -> None:
    """Prints the numbers of a run, and on standard error what to know of them."""
    name = request.name
    for suite_name, result in evaluation.suites.items():
        for warning in thinking_warnings(result.responses, request.judges):
            say(f"{suite_name}: {warning}", file=sys.stderr)
        say(f"{name} {result.numbers.label}: {result.count}")
    cost = evaluation.provenance["usage"]["cost_usd"]
    if cost is not None:
        say(f"{name}: these answers cost ${cost:.4f}, reused ones included and errors not")
    view = View({evaluation.model: evaluation.rates}, {evaluation.model: evaluation.provenance})
    print_rates(view)
    for result in evaluation.suites.values():
        loops = sum(response["finish_reason"] == "loop" for response in result.responses)
        whole = result.numbers.whole
        for line in coverage_warnings(whole, result.responses, loops) if whole else []:
            say(f"{name} {result.numbers.label}: {line}", file=sys.stderr)
    for line in prompt_readers(view):
        say(f"{name}: {line}", file=sys.stderr)


def print_rates(view: View) -> None:
    """Prints the rates of a run over whole suites, and of its samples, with the note on their
    intervals."""
    groups = {
        "": "",
        SAMPLES_FIELD: ", k = {}",
        WITHOUT_PROVIDER.field: ", without refusals by the provider",
    }
    rows = []
    for rate in view.every:
        if rate.group.field not in groups or rate.name in HIDDEN:
            continue
        if rate.group == WITHOUT_PROVIDER and rate.measure.metric != "first":
            continue
        counts = rate.counts
        # No difference at all has an interval by the number of pairs alone.
        no_difference = rate.measure == NULL_DIFFERENCE and rate.value == 0
        n = counts.n if counts.successes is None else f"{counts.successes}/{counts.n}"
        rows.append(
            {
                "suite": rate.key.label if len(view.suites) > 1 else "",
                "measure": rate.name + groups[rate.group.field].format(rate.group.value),
                f"rate [{percent(view.confidence)}]": "none" if no_difference else short_text(rate),
                "counts": f"{n}{clusters_text(rate)}",
                "not judged": not_judged(rate),
                "cut off": counts.cut_off or "",
            }
        )
    table = shown_table(rows)
    print_table(table.header, table.rows)
    say(view.interval_note)


def _where_to(request: RunRequest) -> str:
    """Where prompts and answers are sent, by the model and by the judges that are named."""

    def servers() -> str:
        named = ", ".join(sorted(SERVERS))
        SERVERS.clear()
        return named or "this machine"

    SERVERS.clear()
    open_model(request.name, request.definition)
    answers = servers()
    open_judges(request.judges)
    judgements = servers()
    if {answers, judgements} == {"this machine"}:
        return "nothing leaves this machine: answers and judgements are made here"
    return f"answers from {answers}; judgements from {judgements}"
