"""A results file of ``refract run`` judged and counted again, from the rows beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import cast

from refract.core.errors import ParamsError, RefractError
from refract.core.jsonl import canonical_json, has_form
from refract.core.params import DecisionSettings, NullAnswerSettings, decision_settings
from refract.core.settings import read_settings
from refract.core.types import ResponseRow, Row
from refract.evaluate import Suite, judge_and_count, read_suites, with_prompts
from refract.judges import check_counted, open_judges
from refract.judges.cases import asks_model, versioned
from refract.models.answering import Count, ModelRun
from refract.project import Project, find_judge
from refract.rates.clean_prompts import suite_metrics
from refract.results.current import differing, named
from refract.results.table_rows import json_rows
from refract.suites.draws import Draw


def suites_here(results: Row, project: Project) -> tuple[dict[str, Suite], list[str]]:
    """The suites of a results file as they are here, with their prompts, and what
    differs of them."""
    facts = results["provenance"]
    run = _run(facts)
    suites: dict[str, Suite] = {}
    lines = []
    for name, stated in facts["suites"].items():
        cut_off = stated.get("cut_off")
        try:
            (suite,) = read_suites([str(stated.get("argument") or name)], project)
        except (RefractError, OSError) as error:
            lines.append(f"suite {name} is not here, so that its rows cannot be counted: {error}")
            continue
        before = {"name": suite.name, "sha256": suite.sha256}
        before["cut_off"] = suite.definition.get("cut_off") or "judged"
        after = {"name": name, "sha256": stated["sha256"], "cut_off": cut_off}
        changes = differing(before, after, f"suite {name}: ")
        if changes:
            lines += changes
        else:
            suites[name] = with_prompts(
                suite, list(stated["judges"]), run.get("sample"), seed=run.get("seed", 0)
            )
    counted = {*results["metrics"], *(row["suite"] for row in results["tables"])}
    for name in sorted(counted - {*facts["suites"]}):
        lines.append(f"suite {name}: it has numbers and no provenance")
    return suites, lines


def counted_again(
    results: Row,
    suite: Suite,
    responses: Sequence[ResponseRow],
    rows: Mapping[str, Row],
    project: Project,
) -> tuple[list[Row], list[str]]:
    """Which of a suite's ``rows`` (by prompt id) are not what they are when
    ``responses``, in the order of its prompts, are judged again; and what else differs:
    judges, rates.

    Judges that ask a model are not asked, which is such a difference."""
    facts = results["provenance"]
    run = _run(facts)
    names = facts["suites"][suite.name]["judges"]
    if not names:
        return [], [f"suite {suite.name} names no judge"]
    try:
        definitions = {name: find_judge(name, project) for name in names}
        judges = open_judges(definitions)
        check_counted(suite.name, judges, perturbed=False)
        stated = facts.get("decisions")
        if not isinstance(stated, Mapping):
            raise ParamsError(f"decisions must be a mapping (got {stated!r:.60})")
        # One's own where the results state none.
        own = decision_settings(project.folder).model_dump()
        settings = read_settings(DecisionSettings, "decisions", {**own, **stated})
        drawn = facts.get("null_answers")
        numbers = {**drawn} if isinstance(drawn, Mapping) else {}
        numbers.pop("seed", None)
        null_answers = read_settings(NullAnswerSettings, "null_answers", numbers)
    except RefractError as error:
        return [], [f"suite {suite.name} cannot be judged again: {error}"]
    defined = {name: versioned(definitions[name], judge) for name, judge in judges.items()}
    lines = differing(defined, {name: facts["judges"].get(name) for name in names}, "judges.")
    asking = [name for name, judge in judges.items() if asks_model(type(judge))]
    if asking:
        lines.append(f"suite {suite.name} is not judged again, since {named(asking)} asks a model")
    if lines:
        return [], lines
    result = judge_and_count(
        suite,
        ModelRun(responses={suite.name: list(responses)}, counts={suite.name: Count()}),
        judges,
        definitions=defined,
        model=results["model"],
        draw=Draw(asked=run.get("sample"), total=len(suite.rows), seed=run.get("seed", 0)),
        settings=settings,
        null_answers=null_answers,
    )
    failures = []
    for row in _as_json(result.rows()):
        changes = differing(rows[row["prompt_id"]], row)
        if changes:
            problem = f"judged again: {named(changes, '; ')}"
            failures.append({"prompt_id": row["prompt_id"], "problem": problem})
    rates = result.numbers.rates
    metrics = results["metrics"].get(suite.name, {})
    lines = differing(metrics, suite_metrics(rates), f"{suite.name}, counted again: ")
    table = [row for row in results["tables"] if row["suite"] == suite.name]
    if not lines and table != _as_json(json_rows(rates)):
        lines.append(f"{suite.name}, counted again: the rates of `tables` are others")
    return failures, lines


def _as_json(rows: Sequence[Row]) -> list[Row]:
    return cast("list[Row]", json.loads(canonical_json(list(rows))))


def _run(facts: Row) -> Row:
    """The sample and the seed that results state; {} where they state none that can be
    used."""
    run: Row = facts.get("run") or {}
    return run if has_form(run, {"sample": (int, type(None)), "seed": int}) else {}
