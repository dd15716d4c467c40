"""Recorded answers checked by one pass over each, without generating them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from refract.core.errors import UsageError
from refract.core.jsonl import canonical_json, has_form, parse_json, read_rows
from refract.core.params import run_seed
from refract.core.types import PromptRow, Row
from refract.models import generation_settings, identity_of, open_model, with_fixed
from refract.models.answering import ANSWERS, request_of, requests_by_turn
from refract.models.checkpoint import LocalModelSettings
from refract.models.store import ANSWER_FIELDS, answer_of, request_sha256
from refract.project import Project, find_model
from refract.results.sources import RUN_ROWS, read_run
from refract.suites.perturbations import suite_prompts

if TYPE_CHECKING:
    from refract.models.hf import HF
    from refract.models.protocol import Answer, Model, Request

# Adapters whose models have weights that can answer exactly.
WITH_WEIGHTS = ("hf", "vllm")


class RecordedAnswers(NamedTuple):
    """Recorded answers: the model's name, its facts as ``model.json`` has them, and
    rows by suite."""

    name: str
    model: Row
    rows: Mapping[str, list[Row]]


class Verification(NamedTuple):
    """The checks of a suite's answers: counts, the error bound, and each answer that
    fails.

    As a text: a line for the suite and one for each failure.
    """

    suite: str
    counts: Counter[str]
    bound: float
    failures: list[Row]

    def __str__(self) -> str:
        counts = self.counts
        text = (
            f"{self.suite}: {counts['holds']} of {counts['holds'] + counts['fails']} answers are "
            f"certified under a measured bound of {self.bound:.1e}; {counts['float64']} tokens decided "
            f"in float64, {counts['ties']} ties"
        )
        if counts["from_text"]:
            text += f"; {counts['from_text']} have no token ids, so that their text was tokenised"
        if counts["unchecked"]:
            text += (
                f"; {counts['unchecked']} not checked (errors, filtered or thinking without tokens)"
            )
        if counts["unknown"]:
            text += f"; {counts['unknown']} of no request that is known here"
        for failure in self.failures:
            text += f"\n  {failure['prompt_id']}: {failure['problem']}"
        return text


def find_recorded(name: str, project: Project) -> RecordedAnswers:
    """The recorded answers of a model of params.yaml, a results file of ``refract
    run``, a folder or a JSONL file. Raises :class:`UsageError`."""
    path = Path(name)
    models = project.params.get("models") or {}
    if name in models:
        return recorded_answers(name, project)
    if path.suffix == ".json" and path.is_file():
        return _answers_of_run(path)
    if path.is_dir():
        return _answers_in(path, sorted(path.glob("*.jsonl")))
    if path.suffix == ".jsonl" and path.is_file():
        return _answers_in(path.parent, [path])
    raise UsageError(
        f"{name!r} is no file, no folder and no model of params.yaml ({', '.join(models)})"
    )


def recorded_answers(name: str, project: Project) -> RecordedAnswers:
    """The answers of a model of params.yaml that are recorded in a project."""
    folders = [project.folder / kind / name for kind in (ANSWERS, Path("data/responses"))]
    files = []
    for folder in folders:
        files += sorted(folder.glob("*.jsonl"))
    if not files:
        raise UsageError(f"{name} has no answers in {folders[0]} or {folders[1]}; run: dvc repro")
    described = _model_json(files)
    model = {
        "samples": described.get("samples"),
        "generation": described.get("generation"),
        "definition": find_model(name, project),
    }
    return RecordedAnswers(name, model, _rows_by_suite(files))


def _answers_of_run(path: Path) -> RecordedAnswers:
    results = read_run(path, edited=True)
    rows_file = path.with_suffix(RUN_ROWS)
    if not rows_file.is_file():
        raise UsageError(
            f"{path}: no answers beside it; `refract run --rows {rows_file.name}` writes them"
        )
    rows: dict[str, list[Row]] = {}
    for row in read_rows(rows_file):
        rows.setdefault(str(row.get("suite")), []).append(row)
    return RecordedAnswers(results["model"], results["provenance"]["model"], rows)


def _answers_in(folder: Path, files: Sequence[Path]) -> RecordedAnswers:
    """The answers in files of a folder whose ``model.json`` says which model gave
    them."""
    model = _model_json(files)
    if not has_form(model, {"identity": {}, "definition": {"adapter": str}}):
        raise UsageError(f"{folder} has no model.json, which says what made its answers")
    return RecordedAnswers(folder.resolve().name, model, _rows_by_suite(files))


def _model_json(files: Sequence[Path]) -> Row:
    """The first ``model.json`` beside one of the files."""
    for file in files:
        described = file.parent / "model.json"
        if described.is_file():
            return cast("Row", parse_json(described.read_bytes()))
    return {}


def _rows_by_suite(files: Sequence[Path]) -> dict[str, list[Row]]:
    """Response rows of files by the files' names, equal ones once."""
    rows: dict[str, dict[str, Row]] = {}
    for file in files:
        distinct = rows.setdefault(file.stem, {})
        for row in read_rows(file):
            distinct.setdefault(f"{row.get('request_sha256')} {row.get('answer_sha256')}", row)
    return {suite: list(distinct.values()) for suite, distinct in rows.items()}


def verify_answers(
    recorded: RecordedAnswers, weights: str | None, project: Project
) -> Iterator[Verification]:
    """Checks each suite's answers against the weights of a model of params.yaml.

    ``weights`` names that model; None is the model that answered. Raises
    :class:`UsageError`, and :class:`refract.models.protocol.AdapterError` where the
    weights are not here.
    """
    definition = recorded.model["definition"]
    name = weights or recorded.name
    _check_adapters(recorded, name, project)
    opened: dict[str, HF] = {}
    for suite in recorded.rows:
        fixed = (recorded.model.get("generation") or {}).get(suite) or {}
        asked = with_fixed(recorded.name, definition, fixed)
        settings = {"loop_tokens": None, **generation_settings(recorded.name, asked)}
        if asked["adapter"] != "hf" and settings["temperature"] != 0:
            raise UsageError(
                f"{recorded.name}: a server draws with numbers of its own; answers of temperature: 0 "
                f"can be verified (got {settings['temperature']})"
            )
        source = open_model(recorded.name, asked)
        if "identity" in recorded.model and not fixed:
            identity = canonical_json(recorded.model["identity"])
        else:
            identity = canonical_json(identity_of(source))
        exact = _exact_definition(name, settings, project)
        key = canonical_json(exact)
        if key not in opened:
            opened[key] = cast("HF", open_model(name, exact))
        requests = {}
        for request in _requests(recorded, suite, project, source, identity):
            requests[request_sha256(identity, request, source)] = request
        yield _verify_suite(suite, recorded.rows[suite], requests, opened[key])


def _check_adapters(recorded: RecordedAnswers, name: str, project: Project) -> None:
    """Raises :class:`UsageError` unless the answers can be verified, with the weights
    of ``name``."""
    models = project.params.get("models") or {}
    adapter = recorded.model["definition"].get("adapter")
    if adapter not in (*WITH_WEIGHTS, "openai"):
        raise UsageError(
            f"{recorded.name} has adapter {adapter!r}; answers of hf, vllm and openai models can be "
            "verified"
        )
    usable = [key for key in models if models[key].get("adapter") in WITH_WEIGHTS]
    if name not in usable:
        raise UsageError(
            f"{name} is no model of params.yaml with weights (adapter: hf or vllm); name with --weights "
            f"the one that answered (there are: {', '.join(usable) or 'none'})"
        )


def _exact_definition(name: str, settings: Mapping[str, Any], project: Project) -> dict[str, Any]:
    """A model's definition with these settings of generation, in exact arithmetic."""
    definition = find_model(name, project)
    if definition["adapter"] == "vllm":  # exact decoding of the same checkpoint
        kept = definition.keys() & LocalModelSettings.model_fields.keys()
        definition = {"adapter": "hf"} | {key: definition[key] for key in kept}
    exact = with_fixed(name, definition, settings) | {"arithmetic": "exact", "samples": 1}
    if not exact.get("quantization"):
        exact["dtype"] = "float32"
    return exact


def _verify_suite(
    suite: str, rows: Sequence[Row], requests: Mapping[str, Request], model: HF
) -> Verification:
    """Checks the rows that answer one of the requests, which are by hash."""
    known = [row for row in rows if str(row.get("request_sha256")) in requests]
    asked = [requests[row["request_sha256"]] for row in known]
    counts = Counter(unknown=len(rows) - len(known))
    failures = []
    for index, checked in model.verify(asked, list(map(_answer, known))):
        if checked.problem:
            counts["fails"] += 1
            failures.append({"prompt_id": str(known[index].get("prompt_id")), **asdict(checked)})
        else:
            counts["unchecked" if checked.unchecked else "holds"] += 1
        counts["float64"] += checked.float64
        counts["ties"] += checked.ties
        counts["from_text"] += checked.from_text
    failures.sort(key=lambda failure: failure["prompt_id"])
    return Verification(suite, counts, (model.runtime or {}).get("bound", 0.0), failures)


def _answer(row: Row) -> Answer:
    """The answer of a row; the error in a row of ``refract run`` may be one of a
    judge."""
    error = row.get("error") if row.get("finish_reason") == "error" else None
    return answer_of([{**row, "error": error}.get(key) for key in ANSWER_FIELDS])


def _requests(
    recorded: RecordedAnswers, suite: str, project: Project, source: Model, identity: str
) -> Iterator[Request]:
    """The requests that a suite's rows may answer: those of the project's suite of
    this name, and those of the prompts in the rows themselves."""
    seed = recorded.model.get("seed", run_seed(project.params)) if source.samples else None
    samples = (recorded.model.get("samples") or {}).get(suite, 1)
    rows = recorded.rows[suite]
    if suite in (project.params.get("suites") or {}):
        prompts = suite_prompts(project.params, suite, project.folder).rows
        answers = {str(row.get("request_sha256")): _answer(row) for row in rows}
        turns = requests_by_turn(
            {suite: prompts}, source, seed or 0, {suite: samples}, answers, identity
        )
        for requests in turns:
            yield from requests.values()
    for row in rows:
        if isinstance(row.get("prompt"), str | list):
            yield request_of(_prompt_of(row, suite, samples), seed)


def _prompt_of(row: Row, suite: str, samples: int) -> PromptRow:
    """The prompt in a row; its sample is the number behind ``~`` in the id, where
    there are several."""
    name = str(row.get("prompt_id"))
    sample = re.search(r"~(\d{1,6})$", name) if samples > 1 else None
    return {
        "prompt_id": name,
        "source_id": name,
        "suite": suite,
        "category": row.get("category", "harmful"),
        "perturbation": None,
        "attempts": [row["prompt"]],
        "seed": None,
        "sample": int(sample[1]) if sample else 1,
    }
