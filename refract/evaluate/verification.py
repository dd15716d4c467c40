"""Recorded answers checked by one pass over each, without generating them.

A check passes where all rows that there should be are there and hold. What stands
beside the rows (identity, settings, suites, judges, rates) is compared with one's own,
since whoever made the rows can have written it too."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from refract.core.errors import UsageError
from refract.core.jsonl import canonical_json, has_form, parse_json, read_rows
from refract.core.params import grid, run_seed
from refract.core.types import PromptRow, Row
from refract.evaluate import Suite
from refract.evaluate.counting_again import counted_again, suites_here
from refract.models import generation_settings, identity_of, open_model, samples_of, with_fixed
from refract.models.answering import ANSWERS, request_of, requests_by_turn
from refract.models.checkpoint import LocalModelSettings
from refract.models.store import (
    ResponseStore,
    answer_in,
    answer_row,
    answer_sha256,
    request_sha256,
)
from refract.project import Project, find_model
from refract.results.current import differing, named
from refract.results.sources import RUN_ROWS, read_run
from refract.suites.perturbations import suite_prompts

if TYPE_CHECKING:
    from refract.models.hf import HF
    from refract.models.protocol import Model, Request

# Adapters whose models have weights that can answer exactly.
WITH_WEIGHTS = ("hf", "vllm")
# A setting that a run may change on the command line and that changes no token: only
# where an answer is cut, which its row says.
LIMIT = "max_tokens"


class RecordedAnswers(NamedTuple):
    """Recorded answers: the model's name, its facts as ``model.json`` has them, and
    rows by suite. ``results`` is the whole of a results file; ``own``: they are of a
    model of one's own params.yaml, which says what determined them."""

    name: str
    model: Row
    rows: Mapping[str, list[Row]]
    results: Row | None = None
    own: bool = False


class AnswerSample(NamedTuple):
    """So many of the answers that are not certified here, drawn by ``seed``."""

    size: int
    seed: int


@dataclass
class Verification:
    """The checks of a suite's answers: counts, the error bound, each answer that
    fails, and what else differs from what is stated of them.

    As a text: a line for the suite and one for each failure and difference.
    """

    suite: str
    counts: Counter[str] = field(default_factory=Counter)
    bound: float = 0.0
    failures: list[Row] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether all rows are there, were looked at (as far as they were drawn) and
        hold."""
        lacking = [self.counts[kind] for kind in ("unchecked", "unknown", "missing")]
        return not (self.failures or self.differences or any(lacking))

    def fail(self, row: Row, problem: str) -> None:
        """Notes what is wrong with a row."""
        self.failures.append({"prompt_id": str(row.get("prompt_id")), "problem": problem})

    def __str__(self) -> str:
        counts = self.counts
        answers = counts["holds"] + counts["fails"]
        text = f"{self.suite}: {counts['holds']} of {answers} answers are certified"
        if self.bound:
            text += (
                f" under a measured bound of {self.bound:.1e}; {counts['float64']} tokens decided "
                f"in float64, {counts['ties']} ties"
            )
        for kind, words in (
            ("from_text", "have no token ids, so that their text was tokenised"),
            ("unchecked", "not checked (errors, filtered or thinking without tokens)"),
            ("unknown", "of no request that is known here"),
            ("missing", "prompts have no answer"),
            ("certified", "were certified here before"),
            ("left", "were not drawn"),
        ):
            if counts[kind]:
                text += f"; {counts[kind]} {words}"
        for failure in self.failures:
            text += f"\n  {failure['prompt_id']}: {failure['problem']}"
        for line in self.differences:
            text += f"\n  not as stated: {line}"
        return text


class _Asked(NamedTuple):
    """What a suite's rows should answer: its prompts (None: it is not here), how
    often, and what a protocol fixes of generation. ``suite``: of a results file."""

    prompts: Sequence[PromptRow] | None
    samples: int | None = None
    generation: Mapping[str, Any] | None = None
    suite: Suite | None = None


class _Source(NamedTuple):
    """The model that is to have answered, its identity as JSON, the settings that it
    generates with, and what is stated otherwise."""

    model: Model
    identity: str
    settings: dict[str, Any]
    differences: list[str]


def find_recorded(name: str, project: Project) -> RecordedAnswers:
    """The recorded answers of a model of params.yaml, a results file of ``refract
    run``, a folder or a JSONL file whose ``model.json`` says which model gave them.
    Raises :class:`UsageError`."""
    path = Path(name)
    models = project.params.get("models") or {}
    if name in models:
        return recorded_answers(name, project)
    if path.suffix == ".json" and path.is_file():
        results = read_run(path, edited=True)
        file = path.with_suffix(RUN_ROWS)
        if not file.is_file():
            raise UsageError(
                f"{path}: no answers beside it; `refract run --rows {file.name}` writes them"
            )
        rows: dict[str, list[Row]] = {suite: [] for suite in results["provenance"]["suites"]}
        for row in read_rows(file):
            rows.setdefault(str(row.get("suite")), []).append(row)
        return RecordedAnswers(
            results["model"], results["provenance"]["model"], rows, results=results
        )
    if not path.is_dir() and not (path.suffix == ".jsonl" and path.is_file()):
        raise UsageError(
            f"{name!r} is no file, no folder and no model of params.yaml ({', '.join(models)})"
        )
    folder = path if path.is_dir() else path.parent
    described = folder / "model.json"
    model: Row = parse_json(described.read_bytes()) if described.is_file() else {}
    if not has_form(model, {"identity": {}, "definition": {"adapter": str}}):
        raise UsageError(f"{folder} has no model.json, which says what made its answers")
    rows = _rows_by_suite(sorted(path.glob("*.jsonl")) if path.is_dir() else [path])
    return RecordedAnswers(folder.resolve().name, model, rows)


def recorded_answers(name: str, project: Project) -> RecordedAnswers:
    """The answers of a model of params.yaml that are recorded in a project."""
    folders = [project.folder / kind / name for kind in (ANSWERS, Path("data/responses"))]
    files = []
    for folder in folders:
        files += sorted(folder.glob("*.jsonl"))
    if not files:
        raise UsageError(f"{name} has no answers in {folders[0]} or {folders[1]}; run: dvc repro")
    rows = _rows_by_suite(files)
    if name in grid(project.params, "models"):
        for suite in grid(project.params, "suites"):
            rows.setdefault(suite, [])
    return RecordedAnswers(name, {"definition": find_model(name, project)}, rows, own=True)


def _rows_by_suite(files: Sequence[Path]) -> dict[str, list[Row]]:
    """Response rows of files by the files' names, equal ones once."""
    rows: dict[str, dict[str, Row]] = {}
    for file in files:
        distinct = rows.setdefault(file.stem, {})
        for row in read_rows(file):
            key = [row.get(name) for name in ("prompt_id", "request_sha256", "answer_sha256")]
            distinct.setdefault(canonical_json(key), row)
    return {suite: list(distinct.values()) for suite, distinct in rows.items()}


def verify_answers(
    recorded: RecordedAnswers,
    weights: str | None,
    project: Project,
    store: ResponseStore,
    sample: AnswerSample | None = None,
) -> Iterator[Verification]:
    """Checks each suite's answers against the weights of a model of params.yaml.

    ``weights`` names that model; None is the model that answered. With a ``sample``,
    weights read those answers alone. ``store`` keeps what was certified, and forgets
    what is wrong. Raises :class:`UsageError`, and
    :class:`refract.models.protocol.AdapterError` where the weights are not here.
    """
    name = weights or recorded.name
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
    asked, differences = _asked(recorded, project)
    answers = [row for rows in recorded.rows.values() for row in rows]
    checksums = set(map(_checksum, answers))
    states = store.states(str(row.get("request_sha256")) for row in answers)
    certified = {state.answer_sha256 for state in states.values() if state.certificate}
    drawn: Set[str] = checksums
    if sample is not None:
        places = {}
        for checksum in checksums - certified:
            places[checksum] = hashlib.sha256(f"{sample.seed} {checksum}".encode()).digest()
        drawn = {*sorted(places, key=places.__getitem__)[: sample.size]}
    opened: dict[str, HF] = {}
    printed: set[str] = set()
    for suite, rows in recorded.rows.items():
        source = _source(recorded, asked[suite], name, project=project)
        exact = find_model(name, project)
        if exact["adapter"] == "vllm":  # exact decoding of the same checkpoint
            kept = exact.keys() & LocalModelSettings.model_fields.keys()
            exact = {"adapter": "hf"} | {key: exact[key] for key in kept}
        exact = with_fixed(name, exact, source.settings) | {"arithmetic": "exact", "samples": 1}
        key = canonical_json(exact)
        if key not in opened:
            opened[key] = cast("HF", open_model(name, exact))
        result = Verification(suite)
        ids: dict[str, str] = {}
        requests = _requests(recorded, suite, asked[suite], source=source, project=project, ids=ids)
        chosen = []
        for row in _known_rows(result, rows, requests, ids=ids, model=source.model):
            if _checksum(row) in drawn:
                chosen.append(row)
            else:
                result.counts["certified" if _checksum(row) in certified else "left"] += 1
        _read(result, chosen, requests, weights=opened[key], store=store, certify=source.model)
        complete = not (result.failures or result.counts["missing"] or result.counts["unknown"])
        own_suite = asked[suite].suite
        if recorded.results is not None and own_suite is not None and complete:
            by_id = {str(row.get("prompt_id")): row for row in rows}
            responses = []
            for prompt_id, key in ids.items():
                responses.append(answer_row(key, answer_in(by_id[prompt_id]), prompt_id))
            failures, lines = counted_again(
                recorded.results, own_suite, responses, rows=by_id, project=project
            )
            result.failures += failures
            result.differences += lines
        # What is stated of the model is the same for all suites, and is said once.
        stated = [*differences, *source.differences, *result.differences]
        result.differences = [line for line in stated if line not in printed]
        printed.update(stated)
        yield result


def _checksum(row: Row) -> str:
    return answer_sha256(str(row.get("request_sha256")), answer_in(row))


def _asked(recorded: RecordedAnswers, project: Project) -> tuple[dict[str, _Asked], list[str]]:
    """What the rows of each suite should answer, and what is stated otherwise of
    suites."""
    asked: dict[str, _Asked] = {}
    suites: dict[str, Suite] = {}
    lines: list[str] = []
    if recorded.results is not None:
        suites, lines = suites_here(recorded.results, project)
    for suite, rows in recorded.rows.items():
        if recorded.results is not None:
            here = suites.get(suite)
            stated = recorded.results["provenance"]["suites"].get(suite, {})
            samples = stated.get("draw", {}).get("samples")
            if not isinstance(samples, int) or not 1 <= samples <= len(rows):
                samples = 1
            asked[suite] = _Asked(here.prompts if here else None, samples, suite=here)
        elif suite in (project.params.get("suites") or {}):
            own = suite_prompts(project.params, suite, project.folder)
            asked[suite] = _Asked(own.rows, own.samples, own.generation)
        else:
            asked[suite] = _Asked(None)
            lines.append(
                f"suite {suite} is not in params.yaml: whether its rows are all is not known"
            )
    return asked, lines


def _source(recorded: RecordedAnswers, asked: _Asked, name: str, project: Project) -> _Source:
    """The model that is to have answered: one's own, ``name``, where the file states
    weights too, and else the one that it states."""
    fixed = asked.generation or {}
    own = with_fixed(name, find_model(name, project), fixed)
    definition = with_fixed(recorded.name, recorded.model["definition"], fixed)
    stated = recorded.model.get("identity")
    is_own = not recorded.own and definition["adapter"] == own["adapter"]
    if is_own:
        # Whatever else the file says of its model, one's own definition decides.
        definition = {**own, LIMIT: (stated or {}).get(LIMIT, own.get(LIMIT))}
    model = open_model(recorded.name, definition)
    settings = {"loop_tokens": None, **generation_settings(recorded.name, definition)}
    if definition["adapter"] != "hf" and settings["temperature"] != 0:
        raise UsageError(
            f"{recorded.name}: a server draws with numbers of its own; answers of temperature: 0 "
            f"can be verified (got {settings['temperature']})"
        )
    lines = []
    identity = identity_of(model) if recorded.own or is_own else stated
    if is_own:
        lines = differing(identity or {}, stated or {}, "identity.")
    elif not recorded.own:
        mine = generation_settings(name, own)
        both = (mine.keys() & settings.keys()) - {LIMIT}
        lines = differing({key: mine[key] for key in both}, {key: settings[key] for key in both})
    if recorded.results is not None and "protocol" in recorded.results:
        lines.append("a protocol's results are made again by: refract reproduce RESULTS --exec")
    return _Source(model, canonical_json(identity), settings, differences=lines)


def _requests(
    recorded: RecordedAnswers,
    suite: str,
    asked: _Asked,
    source: _Source,
    project: Project,
    ids: dict[str, str],
) -> dict[str, Request]:
    """The requests that a suite's rows should answer, by hash; ``ids`` gets the hash of
    each prompt's. Of a suite that is not here they are those of the prompts in the rows
    themselves, and ``ids`` stays empty."""
    model, rows = source.model, recorded.rows[suite]
    seed = recorded.model.get("seed", run_seed(project.params)) if model.samples else None
    requests: dict[str, Request] = {}
    if asked.prompts is None:
        for row in rows:
            if isinstance(row.get("prompt"), str | list):
                request = request_of(_prompt_of(row, suite, asked.samples or 1), seed)
                requests[request_sha256(source.identity, request, model)] = request
        return requests
    samples = asked.samples
    if asked.suite is None:
        definition = model.opened[1] if model.opened else {}
        samples = samples_of(model, definition, samples)
    answers = {str(row.get("request_sha256")): answer_in(row) for row in rows}
    turns = requests_by_turn(
        {suite: asked.prompts},
        model,
        seed or 0,
        samples={suite: samples or 1},
        identity=source.identity,
    )
    while turns.requests:
        requests |= turns.requests
        turns.go_on(answers)
    ids |= turns.keys[suite]
    return requests


def _known_rows(
    result: Verification,
    rows: Sequence[Row],
    requests: Mapping[str, Request],
    ids: Mapping[str, str],
    model: Model,
) -> list[Row]:
    """The rows that weights are to read: those that answer a request and can be a
    model's. What is wrong with others, and what is missing, is noted."""
    # Their texts stop before what the model wrote last.
    needs_tokens = any(model.identity().get(setting) for setting in ("stop", "reasoning"))
    known = []
    seen: set[str] = set()
    for row in rows:
        key, prompt_id = str(row.get("request_sha256")), row.get("prompt_id")
        if not key and ids.get(str(prompt_id)) == "" and not row.get("response"):
            continue  # a turn that the conversation did not come to
        if key not in requests:
            result.counts["unknown"] += 1
            continue
        if ids and prompt_id is not None and ids.get(str(prompt_id)) != key:
            problem = "its request is not that of the prompt with this id"
        elif str(prompt_id or key) in seen:
            problem = "there is another answer with this id"
        else:
            problem = _not_of_weights(row, needs_tokens) if model.adapter in WITH_WEIGHTS else ""
        seen.add(str(prompt_id or key))
        if problem:
            result.counts["fails"] += 1
            result.fail(row, problem)
        else:
            known.append(row)
    # Two prompts can be one request; rows of a part have no ids.
    present = {str(row.get("prompt_id") or row.get("request_sha256")) for row in rows}
    missing = [id_ for id_, key in ids.items() if not present & {id_, key}]
    result.counts["missing"] = len(missing)
    if missing:
        result.fail({"prompt_id": named(missing)}, "no answer is there")
    return known


def _not_of_weights(row: Row, needs_tokens: bool) -> str:
    """Why a row cannot be an answer of a local model; "" where it can."""
    reason = row.get("finish_reason")
    if reason == "error":
        return "it is an error with a text" if row.get("response") or row.get("thinking") else ""
    if reason not in ("stop", "length", "loop"):
        return f"weights give no answer that ends with {reason!r:.40}"
    if needs_tokens and row.get("tokens") is None:
        return "it has no token ids, without which it cannot be told where it ended"
    if row.get("thinking") and row.get("tokens") is None:
        return "it has thinking without token ids"
    return ""


def _read(
    result: Verification,
    rows: Sequence[Row],
    requests: Mapping[str, Request],
    weights: HF,
    store: ResponseStore,
    certify: Model,
) -> None:
    """Has weights read rows. Where the model of the rows, ``certify``, is to answer
    exactly, the store learns which do."""
    if not rows:
        return
    asked = [requests[row["request_sha256"]] for row in rows]
    answers = [answer_in(row) for row in rows]
    certified_again, wrong = {}, {}
    counts = result.counts
    for index, checked in weights.verify(asked, answers):
        key, answer = rows[index]["request_sha256"], answers[index]
        if checked.problem:
            counts["fails"] += 1
            problem = {key: value for key, value in asdict(checked).items() if key != "certificate"}
            result.failures.append({"prompt_id": str(rows[index].get("prompt_id")), **problem})
            wrong[key] = answer
        elif checked.unchecked:
            counts["unchecked"] += 1
        else:
            counts["holds"] += 1
            if checked.certificate and not checked.from_text:
                certified_again[key] = replace(answer, certificate=checked.certificate)
        counts["float64"] += checked.float64
        counts["ties"] += checked.ties
        counts["from_text"] += checked.from_text
    result.failures.sort(key=lambda failure: failure["prompt_id"])
    result.bound = (weights.runtime or {}).get("bound", 0.0)
    if certify.adapter == "hf" and certify.identity().get("arithmetic") == "exact":
        store.forget(wrong)
        store.put(
            certified_again.items(),
            certify.opened.name if certify.opened else "",
            corrected=certified_again,
        )


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
