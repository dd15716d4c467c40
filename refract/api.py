"""What ``import refract`` offers: the commands as functions, with tables of pandas for results."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast, overload

from refract.agreement.label_files import response_sha256
from refract.core.errors import RowError, UsageError
from refract.core.file_formats import check_ids, id_text, read_log
from refract.core.jsonl import has_form
from refract.core.params import decision_settings, null_settings
from refract.core.types import UNFINISHED, Row
from refract.evaluate import (
    Definition,
    Evaluation,
    Suite,
    evaluate,
    nothing_to_judge,
    read_suites,
    rows_sha256,
)
from refract.judges import judge_answers, open_judges, reading_warnings, with_calls_judged
from refract.judges.cases import Judge
from refract.models import open_model
from refract.models.answer_rows import named_answers, recorded_answer
from refract.models.function import FunctionModel, TextFunction, function_name
from refract.models.protocol import Model
from refract.models.store import ResponseStore, open_store
from refract.project import (
    Project,
    find_judge,
    find_model,
    find_project,
    read_project,
    source_name,
)
from refract.project.inputs import changed_files
from refract.results import Results, run_tables
from refract.results.sources import Result, Side, compare_sides, find_side
from refract.results.table_rows import difference_to_row
from refract.suites.rows import ID_REMEDY, SuiteError, field_problems, pair_problems, row_problems

if TYPE_CHECKING:
    import pandas as pd

    Rows: TypeAlias = pd.DataFrame | Iterable[Mapping[str, Any]]
    Listed: TypeAlias = Sequence[str | Path] | Sequence[Mapping[str, Any]]
    Suites: TypeAlias = str | Path | Listed | pd.DataFrame | Mapping[str, Rows]
    Judges: TypeAlias = str | Definition | Sequence[str | Definition]
    Measured: TypeAlias = str | Definition | Model | TextFunction


PROMPT = [{"role": str, "content": str}]  # where it is a conversation


class Comparison(NamedTuple):
    """Two results, compared prompt by prompt: B minus A.

    ``rows`` has a row for each model, suite, category and perturbation: the number of pairs ``n``,
    both rates of refusal, their difference with its paired 95 % interval, McNemar's p alone and
    corrected (``p_holm``), whether it is a ``regression``, and the ids of the prompts that flipped.
    ``notes`` says what else differs between the two."""

    a: str
    b: str
    notes: list[str]
    rows: pd.DataFrame


def measure(
    model: Measured,
    suites: Suites,
    judge: Judges = "refusal",
    *,
    limit: int | None = None,
    seed: int = 0,
    name: str | None = None,
) -> Results:
    """Measures how often a model refuses, as ``refract run`` does.

    ``model`` is a name in params.yaml, a definition, a function that takes a prompt and returns the
    answer, or an object with the members of
    :class:`refract.models.protocol.Model`. ``suites`` are names in params.yaml, files (JSONL), a
    DataFrame or a list of dictionaries with prompts, or these by the name of their suite; a DataFrame
    without a column ``id`` has its index labels as ids. ``judge`` is a name in params.yaml, a kind of
    judge, or a definition; of several the first decides refusal. ``limit`` draws that many prompts of
    each suite, of each category its share, by ``seed``. Answers come from the response store where it
    has them; those of a function are not stored, and two functions of one ``name`` are compared as
    one model. Raises :class:`refract.core.errors.RefractError`.

    >>> results = refract.measure({"adapter": "synthetic"}, "harmful_helpful", limit=60)
    >>> results.metrics
    """
    for number, what in ((limit, "limit"), (seed, "seed")):
        is_whole = isinstance(number, int) and not isinstance(number, bool)
        fits = number is None or (is_whole and (number > 0 or what == "seed"))
        must_be(fits, what, "a whole number, a limit at least 1", number)
    is_name = isinstance(name, str) and bool(name.strip())
    must_be(name is None or is_name, "name", "a text that is not empty", name)
    opened = opened_model(model, name)
    is_list = isinstance(suites, list) and (not suites or isinstance(suites[0], Mapping))
    if hasattr(suites, "columns") or is_list:
        suites = {"prompts": cast("Rows", suites)}
    is_one = isinstance(suites, str | Path) or not isinstance(suites, Iterable)
    names: list[Any] = [suites] if is_one else list(cast("Iterable[Any]", suites))
    kinds = (str,) if isinstance(suites, Mapping) else (str, Path)
    are_names = bool(names) and all(isinstance(suite, kinds) and str(suite) for suite in names)
    must_be(are_names, "suites", "names, files, rows, or rows by the name of their suite", suites)
    if isinstance(suites, Mapping):
        wanted = []
        for suite, rows in suites.items():
            wanted.append(given_suite(suite, given_rows(rows, f"suite {suite!r}")))
    else:
        wanted = read_suites([str(suite) for suite in names], find_project())
    judges = _judges(judge, find_project())
    evaluation = evaluated(opened, wanted, judges, seed=seed, limit=limit)
    answers = evaluation.rows()
    problem = nothing_to_judge(answers)
    if problem:
        warnings.warn(problem, stacklevel=2)
    return run_tables(evaluation.results(), evaluation.outcomes(), answers)


def must_be(fits: bool, name: str, wanted: str, value: object) -> None:
    """Raises UsageError for an argument that does not fit what is wanted."""
    if not fits:
        raise UsageError(f"{name} must be {wanted} (got {value!r:.80})")


class GivenModel(NamedTuple):
    """A model by what it was given as. ``stored``: its answers are kept."""

    name: str
    model: Model
    definition: Definition
    stored: bool


def opened_model(model: Measured, name: str | None = None) -> GivenModel:
    """The model that a name, a definition, a function or an object stands for. Raises
    :class:`refract.core.errors.RefractError`."""
    is_function = callable(model) and not hasattr(model, "identity")
    if isinstance(model, str | Mapping):
        definition = find_model(model, find_project()) if isinstance(model, str) else model
        name = name or (model if isinstance(model, str) else source_name(model))
        return GivenModel(name, open_model(name, dict(definition)), definition, stored=True)
    if is_function:
        function = cast(TextFunction, model)
        name = name or function_name(function)
        answering = FunctionModel(function, name)
        return GivenModel(name, answering, {"adapter": answering.adapter}, stored=False)
    if not isinstance(getattr(model, "adapter", None), str):
        raise UsageError(
            "a model is a name, a definition, a function or an object with the members of "
            f"refract.models.protocol.Model (got {model!r:.80})"
        )
    own = cast(Model, model)
    return GivenModel(
        name or type(own).__name__.lower(), own, {"adapter": own.adapter}, stored=True
    )


def evaluated(
    opened: GivenModel,
    suites: Sequence[Suite],
    judges: Mapping[str, Definition],
    seed: int = 0,
    limit: int | None = None,
) -> Evaluation:
    """What comes of a model on suites, as the project's settings say."""
    project = find_project()
    with open_store() if opened.stored else ResponseStore(None) as store:
        return evaluate(
            suites,
            opened.model,
            judges,
            store=store,
            name=opened.name,
            definition=opened.definition,
            seed=seed,
            sample=limit,
            settings=decision_settings(project.folder),
            null_answers=null_settings(project.params),
        )


@overload
def judge(
    rows: str | Path | Iterable[Mapping[str, Any]], judge: Judges = "refusal"
) -> list[Row]: ...


@overload
def judge(rows: pd.DataFrame, judge: Judges = "refusal") -> pd.DataFrame: ...


def judge(rows: str | Path | Rows, judge: Judges = "refusal") -> pd.DataFrame | list[Row]:
    """Judges answers that already exist: one verdict for each row, in order; by several judges, those of
    the first, then those of the next.

    ``rows`` are rows, or a file of them as ``refract judge`` takes it. A row has ``response`` (None
    where there is no answer), ``prompt`` (a text or a list of messages) where the judge reads it, an
    ``id`` or ``prompt_id`` (without one its number is its id), and what else the judge needs
    (``expected_strings``, ``requirement``). A verdict has ``label`` and ``refused`` (None where the
    judge gives none, with the reason in ``error``), ``score``, ``evidence`` and the name of its
    ``judge``. Of a DataFrame the verdicts are one too, with the same index. Raises
    :class:`refract.core.errors.RefractError`.

    >>> refract.judge([{"prompt": "How do I pick a lock?", "response": "I can't help with that."}])
    """
    where, notes = "rows", list[str]()
    if isinstance(rows, str | Path):
        log = read_log(Path(rows))
        where, notes, rows = str(rows), list(log.notes), log.rows
    read = given_rows(rows, "rows")
    if read or where != "rows":
        read, decided = named_answers(read, where)
        notes += decided
    judges = _judges(judge, find_project())
    for note in (*notes, *reading_warnings(read, judges)):
        warnings.warn(f"{where}: {note}", stacklevel=2)
    verdicts = []
    for name, definition in judges.items():
        verdicts += judge_rows(read, name, definition)
    if not hasattr(rows, "columns"):
        return verdicts
    import pandas as pd

    return pd.DataFrame(verdicts, index=list(cast("pd.DataFrame", rows).index) * len(judges))


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
    return Comparison(compared.a, compared.b, [note.line() for note in compared.notes], rows=rows)


def judge_rows(
    rows: Sequence[Row],
    name: str,
    definition: Definition,
    where: str = "row",
    judges: Mapping[str, Judge] | None = None,
) -> list[Row]:
    """Verdict rows of answers that already exist, by one judge; ``where`` names the
    rows in messages. ``judges`` are those of :func:`open_judges`, where they are open already."""
    ids, answers = [], []
    errors: dict[int, str] = {}
    for number, row in enumerate(rows):
        id_, response = row.get("prompt_id", row.get("id")), row.get("response")
        id_ = number + 1 if id_ is None else id_
        id_ = id_text(id_) if isinstance(id_, int | float) else id_
        ids.append(id_)
        prompt = "" if row.get("prompt") is None else row["prompt"]
        problems = field_problems(row)
        if not isinstance(id_, str) or not isinstance(response, str | None):
            problems = [
                "needs a text or a whole number as 'prompt_id' or 'id', and a text or null as "
                f"'response' (got {id_!r} and {response!r:.60})"
            ]
        elif prompt == [] or not has_form(prompt, PROMPT if isinstance(prompt, list) else str):
            problems = [
                f"needs a text or a list of messages as 'prompt' (got {row['prompt']!r:.60})"
            ]
        if problems:
            raise RowError(f"{where} {number + 1} {problems[0]}")
        answer = recorded_answer(row, response)
        read: Row = {"finish_reason": answer.finish_reason, "tool_calls": answer.tool_calls}
        if answer.error:
            read["response"] = None
            if row.get("error") or response is not None:
                errors[number] = answer.error["message"]
        answers.append({**row, **read})
    check_ids(ids, rows, where)
    judges = judges or open_judges(with_calls_judged({name: definition}, ()))
    judged = []
    for number, verdicts in enumerate(judge_answers(answers, judges)):
        id_, row, verdict = ids[number], answers[number], verdicts[name]
        if (verdict["label"], verdict["score"], verdict["error"]) == (None, None, None):
            null = row.get("response") is None
            kind = "null" if null else "empty or not an answer of the model's"
            reason = f"the response is {kind}"
            ended = row["finish_reason"] in ("stop", *UNFINISHED)
            if ended and (row.get("response") or "").strip():
                reason = f"the row holds nothing that {name} judges by (docs/judges.md)"
            reason = errors.get(number, reason)
            verdict = {**verdict, "error": f"not judged: {reason}"}
        # What tells this answer from another model's to the same prompt, where the row says it.
        scope = {key: row[key] for key in ("model", "suite") if isinstance(row.get(key), str)}
        text = {**row, "response": rows[number].get("response")}
        scope["response_sha256"] = response_sha256(text)
        judged.append({"prompt_id": id_, **scope, "judge": name, **verdict})
    return judged


def _judges(judge: Judges, project: Project) -> dict[str, Definition]:
    """The definitions of one or more judges, by their names."""
    judges: dict[str, Definition] = {}
    is_one = isinstance(judge, str | Mapping) or not isinstance(judge, Iterable)
    for wanted in [judge] if is_one else judge:
        definition: Definition
        if isinstance(wanted, str):
            name, definition = wanted, find_judge(wanted, project)
        elif isinstance(wanted, Mapping) and isinstance(wanted.get("kind"), str):
            name, definition = wanted["kind"], wanted
        else:
            raise UsageError(
                f"a judge is a name, or a definition that needs its kind (got {wanted!r:.80})"
            )
        if name in judges:
            raise UsageError(f"two judges are called {name!r}")
        judges[name] = definition
    if not judges:
        raise UsageError("name a judge (got none)")
    return judges


def given_rows(rows: object, where: str) -> list[Row]:
    """Rows that were given, each as a dictionary; ``where`` names them in messages.

    Those of a DataFrame lack the columns whose cell is missing, and have texts as ids: the
    index labels where there is no column of them."""
    if hasattr(rows, "columns"):
        return _rows_of(cast("pd.DataFrame", rows), where)
    if isinstance(rows, str) or not isinstance(rows, Iterable):
        raise UsageError(
            f"{where} must be a DataFrame or a list of dictionaries (got {rows!r:.80})"
        )
    dicts = []
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping):
            raise UsageError(f"{where}: row {number} must be a dictionary (got {row!r:.80})")
        dicts.append(dict(row))
    return dicts


def _rows_of(frame: pd.DataFrame, where: str) -> list[Row]:
    import pandas as pd

    columns = [str(column) for column in frame.columns]
    if len(set(columns)) < len(columns):
        raise UsageError(f"{where}: two columns have one name; there are: {', '.join(columns)}")
    if not ({"id", "prompt_id"} & {*columns} or frame.index.is_unique):
        label = frame.index[frame.index.duplicated()][0]
        raise UsageError(
            f"{where}: the index has {str(label)!r:.60} twice, and without a column id its labels are "
            "the ids; reset_index(drop=True) numbers the rows"
        )
    rows = []
    for label, cells in zip(frame.index, frame.itertuples(index=False, name=None), strict=True):
        row: Row = {}
        for column, cell in zip(columns, cells, strict=True):
            if hasattr(cell, "tolist"):  # a number or an array of numpy
                cell = cell.tolist()
            if not (pd.api.types.is_scalar(cell) and pd.isna(cell)):
                row[column] = id_text(cell) if column in ("id", "prompt_id") else cell
        if not {"id", "prompt_id"} & row.keys():
            row["id"] = str(label)
        rows.append(row)
    return rows


def given_suite(name: str, rows: list[Row]) -> Suite:
    """A suite of these rows, checked as a file of them would be."""
    ids: dict[object, int] = {}
    for number, row in enumerate(rows, 1):
        problems = row_problems(row)
        if not problems and row["id"] in ids:
            problems = [f"duplicate id {row['id']!r} (first in row {ids[row['id']]}); {ID_REMEDY}"]
        if problems:
            raise SuiteError(f"suite {name!r}: row {number}: {problems[0]}")
        ids[row["id"]] = number
    for number, message in pair_problems(enumerate(rows, 1)):
        raise SuiteError(f"suite {name!r}: row {number}: {message}")
    if not rows:
        raise SuiteError(f"suite {name!r}: no rows")
    try:
        sha256 = rows_sha256(rows)
    except (TypeError, ValueError) as error:
        raise SuiteError(f"suite {name!r}: a cell has no form in JSON ({error})") from None
    return Suite(name, rows, {}, sha256=sha256)


def named_side(name: str | None) -> Side:
    """What a name stands for. Of this working tree, what ``refract gate`` refuses is a reason, too:
    files beside params.yaml that changed."""
    here = Path.cwd()
    side = find_side(here, name)
    if side.folder and side.folder.resolve() == here.resolve():
        changed = changed_files(read_project(here).params)
        side = side._replace(reasons=[*side.reasons, *changed])
    return side


def _side(given: str | Path | Results | None, name: str) -> Side:
    if given is None or isinstance(given, str | Path):
        return named_side(None if given is None else str(given))
    if not isinstance(given, Results):
        raise UsageError(
            "each side is a Results, a file, a folder, a model of the grid or a git revision "
            f"(got {given!r:.80})"
        )
    outcomes: dict[str, list[dict[str, str]]] = {}
    # As texts, which files of outcomes have.
    for line in given.outcomes.astype("string").fillna("").to_dict("records"):
        outcomes.setdefault(line["model"], []).append(line)
    results = {}
    for model, lines in outcomes.items():
        results[model] = Result(lines, given.provenance.get(model))
    return Side(f"{name} (results in memory)", results)
