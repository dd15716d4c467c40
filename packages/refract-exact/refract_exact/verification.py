"""Recorded answers and results, checked without generating answers again.

An answer holds where weights, by one pass over it, give the same tokens. What stands beside it in
a file is compared with what one's own params.yaml gives, since whoever made the file can have
written all of it."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from refract.core.errors import RefractError, UsageError
from refract.core.jsonl import canonical_json, has_form, read_rows
from refract.core.params import (
    DecisionSettings,
    NullAnswerSettings,
    decision_settings,
    grid,
    run_seed,
)
from refract.core.settings import read_settings
from refract.core.types import Row
from refract.evaluate import Evaluation, evaluate, read_suites
from refract.judges import open_judges
from refract.judges.cases import asks_model
from refract.models import generation_settings, identity_of, open_model, samples_of
from refract.models.answering import ANSWERS, answer_prompts
from refract.models.checkpoint import HFSettings
from refract.models.protocol import Answer, Model, Request
from refract.models.store import ResponseStore, answer_in, answer_sha256, request_sha256, storable
from refract.project import Project, find_judge, find_model
from refract.results.current import differing, named
from refract.results.recounted import differing_rates
from refract.results.sources import RUN_ROWS, read_run
from refract.results.table_rows import rates_from_rows
from refract.suites.perturbations import suite_prompts

if TYPE_CHECKING:
    from refract.models.hf import HF

# A setting that a run may change on the command line and that changes no token: only
# where an answer is cut, which its row says.
LIMIT = "max_tokens"
# Settings that say where something was, and how it was reached.
PLACES = ("model_id", "base_url", "api_key_env", "gguf_file", "trust_remote_code")
MISSING = Answer.failed("Missing", "no answer is recorded")
# Facts of a results file that its answers, one's own model and the weights give, and the parts
# of it that are compared with these or with what is counted again.
FACTS = {
    "model": ("architecture", "context_length", "dtype", "parameters", "seed"),
    "usage": ("prompt_tokens", "completion_tokens"),
}
COMPARED = {
    *("metrics", "tables", "model", "provenance", "definition", "identity", *FACTS["model"]),
    *("judges", "decisions", "null_answers", "suites"),
    *("schema_version", "sha256", "rows_sha256", "outcomes_sha256"),
}
# What of a suite's provenance is not compared: what files are called where it was written.
OF_PLACE = ("argument", "definition", "unread")
# What is said of counts besides those of answers that hold.
COUNTS = {
    "from_text": "have no token ids, so that their text was tokenised",
    "certified": "were certified here before",
    "left": "were not drawn",
}


class RecordedAnswers(NamedTuple):
    """The answers of a model by suite: of one in params.yaml, or of a results file, whose
    whole is ``results``."""

    name: str
    rows: Mapping[str, list[Row]]
    results: Row | None = None


@dataclass
class Verification:
    """The check of a suite's answers: counts, the error bound, and all that is wrong."""

    suite: str
    counts: Counter[str] = field(default_factory=Counter)
    bound: float = 0.0
    problems: list[str] = field(default_factory=list)
    stated: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        counts = self.counts
        text = f"{self.suite}: {counts['holds']} of {counts['read']} answers are certified"
        if self.bound:
            text += (
                f" under a measured bound of {self.bound:.1e}; {counts['float64']} tokens decided "
                f"in float64, {counts['ties']} ties"
            )
        texts = [text]
        for kind, words in COUNTS.items():
            if counts[kind]:
                texts.append(f"{counts[kind]} {words}")
        stated = [f"stated, and not checked: {line}" for line in self.stated]
        return "\n  ".join(["; ".join(texts), *self.problems, *stated])


class Replay:
    """A model in whose place its recorded answers stand. ``requests`` are those that it
    got, by hash."""

    def __init__(self, model: Model, rows: Iterable[Row]) -> None:
        self.model = model
        self.requests: dict[str, Request] = {}
        self._recorded = {str(row.get("request_sha256")): answer_in(row) for row in rows}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        """The recorded answers, and errors in place of those that there are not."""
        identity = canonical_json(identity_of(self.model))
        for index, request in enumerate(requests):
            key = request_sha256(identity, request, self.model)
            self.requests[key] = request
            answer = self._recorded.get(key, MISSING)
            is_one = storable(answer) and answer.attempt in range(len(request.attempts))
            yield index, answer if is_one else MISSING


Asked = tuple[Replay, Mapping[str, str]]  # the model, and the hash of each prompt's request


def find_recorded(name: str, project: Project) -> RecordedAnswers:
    """The recorded answers of a model of params.yaml, or of a results file of ``refract
    run`` with its rows. Raises :class:`UsageError`."""
    models = project.params.get("models") or {}
    rows: dict[str, list[Row]] = {}
    if name not in models:
        path = Path(name)
        if not path.is_file():
            known = ", ".join(models)
            raise UsageError(
                f"{name!r} is no results file, no project and no model of params.yaml ({known})"
            )
        results, file = read_run(path, edited=True), path.with_suffix(RUN_ROWS)
        if not file.is_file():
            raise UsageError(
                f"{path}: no answers beside it; `refract run --rows {file.name}` writes them"
            )
        rows = {suite: [] for suite in results["provenance"]["suites"]}
        for row in read_rows(file):
            rows.setdefault(str(row.get("suite")), []).append(row)
        return RecordedAnswers(results["model"], rows, results)
    folders = [project.folder / kind / name for kind in (ANSWERS, Path("data/responses"))]
    seen: set[tuple[str, str]] = set()
    for file in (path for folder in folders for path in sorted(folder.glob("*.jsonl"))):
        for row in read_rows(file):
            key = file.stem, canonical_json([row.get("prompt_id"), _checksum(row)])
            if key not in seen:
                seen.add(key)
                rows.setdefault(file.stem, []).append(row)
    if not rows:
        raise UsageError(f"{name} has no answers in {folders[0]} or {folders[1]}; run: dvc repro")
    if name in grid(project.params, "models"):
        for suite in grid(project.params, "suites"):
            rows.setdefault(suite, [])
    return RecordedAnswers(name, rows)


def verify_answers(
    recorded: RecordedAnswers,
    weights: str | None,
    project: Project,
    store: ResponseStore,
    sample: int | None = None,
) -> Iterator[Verification]:
    """Checks each suite's answers against the weights of a model of params.yaml.

    ``weights`` names that model; None is the model that answered. With a ``sample``,
    weights read so many of the answers that are not certified here. ``store`` keeps what was
    certified, and forgets what is wrong. Raises :class:`UsageError`, and
    :class:`refract.models.protocol.AdapterError` where the weights are not here."""
    name = _weights_of(recorded, weights, project)
    rows = [row for of_suite in recorded.rows.values() for row in of_suite]
    states = store.states(str(row.get("request_sha256")) for row in rows)
    certified = {state.answer_sha256 for state in states.values() if state.certificate}
    drawn = set(map(_checksum, rows))
    if sample is not None:
        seed = run_seed(project.params)
        places = {key: hashlib.sha256(f"{seed} {key}".encode()).digest() for key in drawn}
        drawn = set(sorted(drawn - certified, key=places.__getitem__)[:sample])
    checks = [Verification(suite) for suite in recorded.rows]
    asked: Iterable[Asked]
    if recorded.results is None:
        asked = (_asked(result, recorded, project) for result in checks)
    else:
        replay, made = _evaluated(recorded, recorded.results, name, project)
        _compare(checks, recorded, find_model(name, project), made)
        answered = {suite: result.responses for suite, result in made.suites.items()}
        asked = ((replay, _ids(answered.get(result.suite, ()))) for result in checks)
    opened: dict[str, HF] = {}
    for result, (replay, ids) in zip(checks, asked, strict=True):
        definition = _exact(name, replay.model, project)
        key = canonical_json(definition)
        if key not in opened:
            opened[key] = cast("HF", open_model(name, definition))
        chosen = []
        for row in _known_rows(result, recorded.rows[result.suite], replay, ids):
            if _checksum(row) in drawn:
                chosen.append(row)
            else:
                result.counts["certified" if _checksum(row) in certified else "left"] += 1
        if chosen:
            _read(result, chosen, replay, weights=opened[key], store=store)
        yield result


def _checksum(row: Row) -> str:
    return answer_sha256(str(row.get("request_sha256")), answer_in(row))


def _ids(responses: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    return {row["prompt_id"]: row["request_sha256"] for row in responses}


def _weights_of(recorded: RecordedAnswers, weights: str | None, project: Project) -> str:
    """The model of params.yaml whose weights are to read answers. Raises :class:`UsageError`."""
    models = project.params.get("models") or {}
    if recorded.results is None:
        adapter = models[recorded.name].get("adapter")
    else:
        adapter = recorded.results["provenance"]["model"]["definition"]["adapter"]
    if adapter not in ("hf", "openai"):
        raise UsageError(
            f"{recorded.name} has adapter {adapter!r}; answers of hf and openai models can be verified"
        )
    # What a file states of its model is compared with a model of the same kind.
    reader = "hf" if recorded.results is None else adapter
    usable = [key for key in models if models[key].get("adapter") == reader]
    name = weights or recorded.name
    if name not in usable:
        raise UsageError(
            f"{name} is no model of params.yaml with weights (adapter: {reader}); name "
            f"with --weights the one that answered (there are: {', '.join(usable) or 'none'})"
        )
    return name


def _exact(name: str, source: Model, project: Project) -> dict[str, Any]:
    """A model of params.yaml as it answers exactly, with the settings of the model that is
    to have answered. Raises :class:`UsageError` where a server draws at random."""
    own = dict(find_model(name, project))
    if own["adapter"] != "hf":  # exact decoding of the same checkpoint
        kept = own.keys() & HFSettings.model_fields.keys()
        own = {"adapter": "hf"} | {key: own[key] for key in kept}
    answered, definition = source.opened
    settings = {"loop_tokens": None, **generation_settings(answered, definition)}
    if source.adapter != "hf" and settings["temperature"] != 0:
        raise UsageError(
            f"{answered}: a server draws with numbers of its own; answers of temperature: 0 can be "
            f"verified (got {settings['temperature']})"
        )
    for key, value in settings.items():
        own.pop(key, None)
        if value is not None and key in HFSettings.model_fields:
            own[key] = value
    return own | {"arithmetic": "exact", "samples": 1}


def _asked(result: Verification, recorded: RecordedAnswers, project: Project) -> Asked:
    """The model of params.yaml that answered a suite, and the requests of its prompts."""
    definition, suite = find_model(recorded.name, project), result.suite
    if suite not in (project.params.get("suites") or {}):
        result.problems.append(f"suite {suite} is not in params.yaml")
        return Replay(open_model(recorded.name, definition), ()), {}
    prompts = suite_prompts(project.params, suite, project.folder)
    replay = Replay(open_model(recorded.name, definition), recorded.rows[suite])
    responses, _ = answer_prompts(
        {suite: prompts.rows},
        cast(Model, replay),
        ResponseStore(None),
        run_seed(project.params),
        name=recorded.name,
        samples={suite: samples_of(replay.model, definition, prompts.samples)},
    )
    return replay, _ids(responses[suite])


def _evaluated(
    recorded: RecordedAnswers, results: Row, name: str, project: Project
) -> tuple[Replay, Evaluation]:
    """A results file as its answers give it with one's own model, suites and judges. Raises
    :class:`RefractError` where these are not here, or would ask a model."""
    facts = results["provenance"]
    own = find_model(name, project)
    # Whatever else the file says of its model, one's own definition decides.
    definition = {**own, LIMIT: facts["model"]["identity"].get(LIMIT, own.get(LIMIT))}
    rows = [row for of_suite in recorded.rows.values() for row in of_suite]
    replay = Replay(open_model(recorded.name, definition), rows)
    suites = []
    judges: dict[str, dict[str, Any]] = {}
    for suite, stated in facts["suites"].items():
        samples = stated["draw"].get("samples")
        samples = samples if isinstance(samples, int) and 1 < samples <= len(rows) else None
        (here,) = read_suites([str(stated.get("argument") or suite)], project, samples=samples)
        suites.append(replace(here, definition={**here.definition, "judges": stated["judges"]}))
        judges |= {judge: find_judge(judge, project) for judge in stated["judges"]}
    asking = [judge for judge, opened in open_judges(judges).items() if asks_model(type(opened))]
    if asking:
        raise UsageError(
            f"results cannot be counted again where {named(asking)} asks a model; run the command again"
        )
    run = facts.get("run")
    run = run if has_form(run, {"sample": (int, type(None)), "seed": int}) else {}
    # One's own where the results state none.
    decisions = decision_settings(project.folder).model_dump() | (facts.get("decisions") or {})
    null_answers = dict(facts.get("null_answers") or {})
    null_answers.pop("seed", None)
    evaluation = evaluate(
        suites,
        cast(Model, replay),
        judges,
        ResponseStore(None),
        name=recorded.name,
        definition=definition,
        seed=run.get("seed", 0),
        sample=run.get("sample"),
        settings=read_settings(DecisionSettings, "decisions", decisions),
        null_answers=read_settings(NullAnswerSettings, "null_answers", null_answers),
    )
    return replay, evaluation


def _compare(
    checks: Sequence[Verification], recorded: RecordedAnswers, definition: Row, made: Evaluation
) -> None:
    """Notes where a results file is another one than its answers and one's own ``definition`` of
    its model give."""
    results = recorded.results or {}
    again = json.loads(canonical_json(made.results()))
    own, stated = again["provenance"], results["provenance"]
    lines = differing(own["model"]["identity"], stated["model"]["identity"], "identity.")
    for part, keys in FACTS.items():
        mine, theirs = own.get(part) or {}, stated.get(part) or {}
        known = [key for key in keys if key in mine and key in theirs]
        told = {key: theirs[key] for key in known}
        lines += differing({key: mine[key] for key in known}, told, f"{part}.")
    lines += _of_definition(checks[0], recorded.name, definition, results)
    for part in ("judges", "decisions", "null_answers"):
        lines += differing(own[part], stated.get(part) or {}, f"{part}.")
    for facts in (*own["suites"].values(), *stated["suites"].values()):
        for key in OF_PLACE:
            facts.pop(key, None)
    lines += differing(own["suites"], stated["suites"], "suites.")
    lines += differing(again["metrics"], results["metrics"], "metrics.")
    rates = rates_from_rows(results["tables"])
    for name in dict.fromkeys(rate.suite for rate in (*rates, *made.rates)):
        of_suite = [rate for rate in rates if rate.suite == name]
        counted = [rate for rate in made.rates if rate.suite == name]
        lines += [f"{name}: {problem}" for problem in differing_rates(of_suite, counted)]
    checks[0].problems += [f"not as stated: {line}" for line in lines]
    for result in checks:
        by_id = {row.get("prompt_id"): row for row in recorded.rows[result.suite]}
        if None in by_id:
            result.problems.append("a row has no prompt_id")
        here = made.suites.get(result.suite)
        for row in json.loads(canonical_json(here.rows() if here else [])):
            changes = differing(by_id.get(row["prompt_id"], row), row)
            if changes:
                problem = f"judged again: {named(changes, '; ')}"
                result.problems.append(f"{row['prompt_id']}: {problem}")


def _of_definition(check: Verification, name: str, own: Row, results: Row) -> list[str]:
    """Where the definition that a results file states would answer otherwise than one's own, with
    the weights here. Of what no weights can tell a line is noted as stated."""
    facts = results["provenance"]["model"]
    theirs = {**facts["definition"], "adapter": own["adapter"]}
    check.stated.append(f"the model is called {name!r}")
    for key in (*PLACES, LIMIT):
        before, after = own.get(key), theirs.pop(key, None)
        after = facts["identity"].get(key) if key == LIMIT else after
        if before != after:
            check.stated.append(f"{key} is {after!r:.80}, yours is {before!r:.80}")
        if key in own:
            theirs[key] = before
    places = {"": results, "provenance.": results["provenance"], "provenance.model.": facts}
    others = [f"{place}{key}" for place in places for key in places[place] if key not in COMPARED]
    if others:
        check.stated.append(f"all of {', '.join(sorted(others))}")
    try:
        identities = [open_model(name, one).identity() for one in (own, theirs)]
    except RefractError as error:
        return [f"definition: {error}"]
    ours, others = json.loads(canonical_json(identities))
    return differing(ours, others, "definition.")


def _known_rows(
    result: Verification, rows: Sequence[Row], replay: Replay, ids: Mapping[str, str]
) -> list[Row]:
    """The rows that weights are to read: those that answer a request and can be a
    model's. What is wrong with others, and what is missing, is noted."""
    of_weights = replay.model.adapter == "hf"
    identity = replay.model.identity()
    # Their texts stop before what the model wrote last.
    needs_tokens = bool(identity.get("stop") or identity.get("reasoning"))
    known = []
    seen: set[str] = set()
    for row in rows:
        key, prompt_id = str(row.get("request_sha256")), row.get("prompt_id")
        if not key and ids.get(str(prompt_id)) == "" and not row.get("response"):
            continue  # a turn that the conversation did not come to
        problem = _not_of_weights(row, needs_tokens) if of_weights else ""
        if key not in replay.requests:
            problem = "it answers no request that is known here"
        elif prompt_id is not None and ids.get(str(prompt_id)) != key:
            problem = "its request is not that of the prompt with this id"
        elif str(prompt_id or key) in seen:
            problem = "there is another answer with this id"
        seen.add(str(prompt_id or key))
        if problem:
            result.counts["read"] += 1
            result.problems.append(f"{prompt_id}: {problem}")
        else:
            known.append(row)
    # Two prompts can be one request; rows of a part have no ids.
    missing = [id_ for id_, key in ids.items() if not seen & {id_, key}]
    if missing:
        result.problems.append(f"no answer to {len(missing)} prompts: {named(missing)}")
    return known


def _not_of_weights(row: Row, needs_tokens: bool) -> str:
    """Why a row cannot be an answer of a local model; "" where it can."""
    reason = row.get("finish_reason")
    if reason == "error":
        return "it is an error with a text" if row.get("response") or row.get("thinking") else ""
    if reason not in ("stop", "length", "loop"):
        return f"weights give no answer that ends with {reason!r:.40}"
    if row.get("tokens") is None and (needs_tokens or row.get("thinking")):
        return "it has no token ids, without which its end or its thinking cannot be told"
    return ""


def _read(
    result: Verification, rows: Sequence[Row], replay: Replay, weights: HF, store: ResponseStore
) -> None:
    """Has weights read rows. Where the model of the rows is to answer exactly, the store
    learns which do."""
    counts = result.counts
    counts["read"] += len(rows)
    requests = [replay.requests[row["request_sha256"]] for row in rows]
    answers = [answer_in(row) for row in rows]
    if replay.model.adapter != "hf":  # a server's counts need not be those of weights
        answers = [replace(a, prompt_tokens=None, completion_tokens=None) for a in answers]
    certified: dict[str, Answer] = {}
    wrong: dict[str, Answer] = {}
    problems = []
    for index, checked in weights.verify(requests, answers):
        key, prompt_id = rows[index]["request_sha256"], rows[index].get("prompt_id")
        if checked.problem:
            problems.append(f"{prompt_id}: {checked.problem}")
            wrong[key] = answers[index]
        elif checked.unchecked:
            problems.append(f"{prompt_id}: not checked ({checked.unchecked})")
        else:
            counts["holds"] += 1
            if checked.certificate and not checked.from_text:
                certified[key] = replace(answers[index], certificate=checked.certificate)
        counts["float64"] += checked.float64
        counts["ties"] += checked.ties
        counts["from_text"] += checked.from_text
    result.problems += sorted(problems)
    result.bound = (weights.runtime or {}).get("bound", 0.0)
    model = replay.model
    if model.adapter == "hf" and model.identity().get("arithmetic") == "exact":
        store.forget(wrong)
        store.put(certified.items(), model.opened[0], corrected=certified)
