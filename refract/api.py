"""What ``import refract`` offers: the commands as functions, with tables of pandas
for results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from refract.core.errors import RowError, UsageError
from refract.core.params import decision_settings
from refract.core.types import FinishReason, Row, given_prompt, given_response
from refract.evaluate import Definition, Suite, evaluate, read_suites, rows_sha256
from refract.judges import judge_suite, open_judges, with_calls_judged
from refract.models import open_model
from refract.models.protocol import Model
from refract.models.store import open_store
from refract.project import Project, find_judge, find_model, find_project
from refract.results import Results, run_tables
from refract.results.sources import Result, Side, compare_sides, find_side
from refract.results.table_rows import difference_to_row
from refract.suites.rows import SuiteError, field_problems, row_problems

if TYPE_CHECKING:
    import pandas as pd

Suites = str | Path | Sequence[str | Path] | Mapping[str, Sequence[Mapping[str, Any]]]


class Comparison(NamedTuple):
    """Two results, compared prompt by prompt: B minus A.

    ``rows`` has a row for each model, suite, category and perturbation: the number of
    pairs ``n``, both rates of refusal, their difference with its paired 95 %
    interval, McNemar's p alone and corrected (``p_holm``), whether it is a
    ``regression``, and the ids of the prompts that flipped. ``notes`` says what else
    differs between the two.
    """

    a: str
    b: str
    notes: list[str]
    rows: pd.DataFrame


def measure(
    model: str | Definition | Model,
    suites: Suites,
    judge: str | Definition | Sequence[str | Definition] = "refusal",
    *,
    sample: int | None = None,
    seed: int = 0,
    name: str | None = None,
) -> Results:
    """Measures how often a model refuses, as ``refract run`` does.

    ``model`` is a name in params.yaml, a definition, or an object with the members of
    :class:`refract.models.protocol.Model`. ``suites`` are names in params.yaml, files (JSONL), or
    rows by the name of their suite. ``judge`` is a name in params.yaml, a kind of judge, or a
    definition; of several the first decides refusal. ``sample`` draws that many prompts of each suite,
    by ``seed``. Answers come from the response store where it has them. Raises
    :class:`refract.core.errors.RefractError`.

    >>> results = refract.measure({"adapter": "synthetic"}, "harmful_helpful", sample=60)
    >>> results.metrics
    """
    project = find_project()
    judges: dict[str, Definition] = {}
    for wanted_judge in [judge] if isinstance(judge, str | Mapping) else judge:
        named = _judges(wanted_judge, project)
        if not judges.keys().isdisjoint(named):
            raise UsageError(f"two judges are called {min(named)!r}")
        judges |= named
    definition: Definition = {}
    if isinstance(model, str):
        name, definition = name or model, find_model(model, project)
    elif isinstance(model, Mapping):
        definition = model
        name = name or Path(str(model.get("model_id", model.get("adapter")))).name
    name = name or type(model).__name__.lower()
    opened = open_model(name, dict(definition)) if definition else cast(Model, model)
    if isinstance(suites, Mapping):
        wanted = [_given_suite(suite, rows) for suite, rows in suites.items()]
    else:
        names = [suites] if isinstance(suites, str | Path) else suites
        wanted = read_suites([str(suite) for suite in names], project)
    with open_store() as store:
        evaluation = evaluate(
            wanted,
            opened,
            judges,
            store,
            name=name,
            definition=definition,
            seed=seed,
            sample=sample,
            settings=decision_settings(project.folder),
        )
    return run_tables(evaluation.results(), evaluation.outcomes(), evaluation.rows())


def judge(rows: Iterable[Mapping[str, Any]], judge: str | Definition = "refusal") -> list[Row]:
    """Judges answers that already exist: one verdict for each row, in order.

    A row has ``response`` (None where there is no answer), ``prompt`` (a text or a list of messages)
    where the judge reads it, an ``id`` or ``prompt_id``, and what else the judge needs
    (``expected_strings``, ``requirement``). A verdict has ``label`` and ``refused`` (None where the
    judge gives none, with the reason in ``error``), ``score`` and ``evidence``. Raises
    :class:`refract.core.errors.RefractError`.

    >>> refract.judge([{"prompt": "How do I pick a lock?", "response": "I can't help with that."}])
    """
    numbered = [{"id": str(number), **row} for number, row in enumerate(rows, 1)]
    return judge_rows(numbered, *_judges(judge, find_project()).popitem())


def compare(a: str | Path | Results, b: str | Path | Results | None = None) -> Comparison:
    """Compares two results prompt by prompt, as ``refract compare`` does.

    Each side is what :func:`measure` or ``load_results`` returned, a results file of ``refract run``,
    a folder of outcomes, a model of the grid, a git revision, or ``REVISION:MODEL``; ``b`` defaults to
    the working tree. Raises :class:`refract.results.sources.ResultsError` where nothing can be
    compared.

    >>> refract.compare("main", "HEAD").rows
    """
    import pandas as pd

    compared = compare_sides(_side(a, "A"), _side(b, "B"), decision_settings(Path.cwd()))
    rows = pd.DataFrame([difference_to_row(difference) for difference in compared.differences])
    return Comparison(compared.a, compared.b, compared.notes, rows)


def judge_rows(
    rows: Sequence[Row], name: str, definition: Definition, where: str = "row"
) -> list[Row]:
    """Verdict rows of answers that already exist, by one judge; ``where`` names the
    rows in messages."""
    prompts, responses, sources = [], [], {}
    for number, row in enumerate(rows, 1):
        id_, response = row.get("prompt_id", row.get("id")), row.get("response")
        prompt = row.get("prompt") or ""
        is_conversation = isinstance(prompt, list) and all(
            isinstance(turn, dict)
            and isinstance(turn.get("content"), str)
            and isinstance(turn.get("role"), str)
            for turn in prompt
        )
        problems = field_problems(row)
        if not isinstance(id_, str) or not isinstance(response, str | None):
            problems = [
                "needs a text as 'prompt_id' or 'id', and a text or null as 'response' "
                f"(got {id_!r} and {response!r:.60})"
            ]
        elif not isinstance(prompt, str) and not is_conversation:
            problems = [f"needs a text or a list of messages as 'prompt' (got {prompt!r:.60})"]
        if problems:
            raise RowError(f"{where} {number} {problems[0]}")
        # Rows are told apart by their place: nothing says that ids do not repeat.
        key = str(number)
        prompts.append(given_prompt(key, prompt))
        reason = "error" if response is None else row.get("finish_reason") or "stop"
        responses.append(given_response(key, response or "", cast(FinishReason, reason)))
        if isinstance(row.get("tool_calls"), list):
            responses[-1]["tool_calls"] = row["tool_calls"]
        sources[key] = {**row, "id": key, "prompt": prompt}
    judges = open_judges(with_calls_judged({name: definition}, ()))
    verdicts = judge_suite(prompts, responses, sources, judges)
    judged = []
    for row, verdict_row in zip(rows, verdicts, strict=True):
        verdict = verdict_row["judges"][name]
        if verdict["label"] is None and verdict["error"] is None:
            null = row.get("response") is None
            what = "null" if null else "empty or not an answer of the model's"
            verdict = {**verdict, "error": f"not judged: the response is {what}"}
        # What tells this answer from another model's to the same prompt, where the
        # row says it.
        scope = {key: row[key] for key in ("model", "suite") if isinstance(row.get(key), str)}
        id_ = row.get("prompt_id", row.get("id"))
        judged.append({"prompt_id": id_, **scope, "judge": name, **verdict})
    return judged


def _judges(judge: str | Definition, project: Project) -> dict[str, Definition]:
    """The definition of a judge by its name."""
    if isinstance(judge, str):
        return {judge: find_judge(judge, project)}
    if not isinstance(judge.get("kind"), str):
        raise UsageError(f"a judge's definition needs its kind (got {dict(judge)!r:.80})")
    return {judge["kind"]: judge}


def _given_suite(name: str, given: Sequence[Mapping[str, Any]]) -> Suite:
    """A suite whose rows were given, checked as a file of them would be."""
    rows = [dict(row) for row in given]
    ids = [row.get("id") for row in rows]
    for number, row in enumerate(rows, 1):
        problems = row_problems(row)
        if row.get("id") in ids[: number - 1]:
            problems.append(f"duplicate id {row['id']!r}")
        if problems:
            raise SuiteError(f"suite {name!r}: row {number}: {problems[0]}")
    if not rows:
        raise SuiteError(f"suite {name!r}: no rows")
    return Suite(name, rows, {}, sha256=rows_sha256(rows))


def _side(given: str | Path | Results | None, name: str) -> Side:
    if not isinstance(given, Results):
        return find_side(Path.cwd(), None if given is None else str(given))
    lines = given.outcomes.drop(columns="changed").to_dict("records")
    return Side(
        f"{name} (results in memory)",
        {
            model: Result([line for line in lines if line["model"] == model], None)
            for model in dict.fromkeys(line["model"] for line in lines)
        },
    )
