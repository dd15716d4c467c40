"""model-inference: prompt rows in, response rows out, every stored answer reused."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from refract.core.errors import ParamsError
from refract.core.jsonl import canonical_json, parse_line, sha256_json
from refract.core.types import Message, PromptRow, ResponseRow, prompt_of_sample, sample_prompts
from refract.models import generation_settings, identity_of, open_model, samples_of, with_fixed
from refract.models.generating import Generate, generate, generator, ranks
from refract.models.protocol import (
    LASTING_ERRORS,
    AdapterError,
    Answer,
    AnswerOrigin,
    Model,
    Request,
)
from refract.models.store import (
    ANSWER_FIELDS,
    ResponseStore,
    answer_row,
    answer_sha256,
    request_sha256,
)
from refract.suites.rows import row_seed

# Answers that a project keeps in git, in a folder for each model, as response rows.
ANSWERS = Path("data/answers")


@dataclass
class Count:
    """How many answers of one suite were reused, how many of these ``from_store``, generated, and
    errors."""

    reused: int = 0
    from_store: int = 0
    generated: int = 0
    errors: int = 0

    def __str__(self) -> str:
        text = f"{self.reused} reused, {self.generated} generated"
        return f"{text}, {self.errors} errors" if self.errors else text


def request_of(row: PromptRow, seed: int | None) -> Request:
    """The request of a prompt row; an attempt that is a text is one user message.

    ``seed`` is the run's, or None for a model that does not sample. The samples of a prompt differ
    in their seeds alone.
    """
    prompt_id = prompt_of_sample(row)
    conversations: list[Sequence[Message]] = [
        ({"role": "user", "content": attempt},) if isinstance(attempt, str) else attempt
        for attempt in row["attempts"]
    ]
    return Request(
        tuple(map(tuple, conversations)),
        0 if seed is None else row_seed(seed, row["suite"], prompt_id, row.get("sample", 1)),
        {
            "category": row["category"],
            "perturbation": row["perturbation"],
            "prompt_id": prompt_id,
            "source_id": row["source_id"],
            "suite": row["suite"],
        },
        (row["perturbation"] or {}).get("repeat", 0),
    )


def known_answers(
    folder: Path, besides: Container[str] = frozenset()
) -> Iterator[tuple[str, Answer]]:
    """The answers of response rows on disk (from ``dvc pull``, say), by request hash.

    A row counts only when its checksum holds: an edited or damaged row is skipped, and no other row
    with it. So are rows whose hash is in ``besides``.
    """
    for path in sorted(folder.glob("*.jsonl")):
        with open(path, "rb") as file:
            for line in file:
                try:
                    row = parse_line(line)
                    key = row["request_sha256"]
                    if key in besides:
                        continue
                    answer = Answer(**{field: row[field] for field in ANSWER_FIELDS})
                    intact = row["answer_sha256"] == answer_sha256(key, answer)
                except (KeyError, TypeError, ValueError):
                    continue
                if intact:
                    yield key, answer


def answer_prompts(
    suites: Mapping[str, Iterable[PromptRow]],
    model: Model,
    store: ResponseStore,
    seed: int,
    *,
    name: str = "",
    folders: Iterable[Path] = (),
    generator: Generate | None = None,
    samples: Mapping[str, int] | None = None,
) -> tuple[dict[str, list[ResponseRow]], dict[str, Count]]:
    """Response rows for the prompt rows of each suite, in prompt order, and counts by suite.

    The response rows in ``folders`` are added to the store first. Stored answers are reused; the
    other requests go to the model together, each distinct one once, and answers reach the store as
    they are made. Where nothing is missing the model gets no request at all, so that it loads
    nothing. ``samples`` says how often the prompts of a suite are answered where that is not once.
    ``generator`` takes the place of :func:`refract.models.generating.generate`. Raises
    :class:`refract.models.protocol.AdapterError`; what was answered by then is in the store.
    """
    identity = canonical_json(identity_of(model))
    keys: dict[str, list[tuple[str, str]]] = {}
    requests: dict[str, Request] = {}
    for suite, rows in suites.items():
        keys[suite] = []
        for row in sample_prompts(rows, (samples or {}).get(suite, 1)):
            request = request_of(row, seed if model.samples else None)
            key = request_sha256(identity, request, model)
            keys[suite].append((row["prompt_id"], key))
            requests.setdefault(key, request)
    answers = store.get(requests)
    stored = set(answers)
    for folder in folders:
        if len(answers) < len(requests) and store.put(known_answers(folder, besides=answers), name):
            answers = store.get(requests)
    missing = {key: request for key, request in requests.items() if key not in answers}
    made, generated = (generator or partial(generate, model))(missing, store, name)
    answers |= made
    counts = {suite: Count() for suite in suites}
    responses: dict[str, list[ResponseRow]] = {}
    for suite, pairs in keys.items():
        count = counts[suite]
        responses[suite] = []
        for prompt_id, key in pairs:
            answer = answers[key]
            if key in generated:
                # A request that two rows share is sent once: the second row reuses its answer.
                count.generated += 1
                generated.discard(key)
            else:
                count.reused += 1
                count.from_store += key in stored
            count.errors += answer.error is not None
            responses[suite].append(answer_row(key, answer, prompt_id))
    return responses, counts


@dataclass
class ModelRun:
    """What :func:`answer_model` made: response rows and counts by suite, how the answers were made,
    what ``model.json`` says of the model, and what all of it used."""

    responses: dict[str, list[ResponseRow]]
    counts: dict[str, Count]
    origins: dict[str, AnswerOrigin]
    description: dict[str, Any]
    usage: dict[str, Any]


def answer_model(
    name: str,
    wanted: Mapping[str, Any],
    prompts: Mapping[str, Iterable[PromptRow]],
    store: ResponseStore,
    seed: int,
    *,
    folders: Sequence[Path] = (),
    fixed: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
    samples: Mapping[str, int] = MappingProxyType({}),
) -> ModelRun:
    """Answers every suite's prompts with the model that the definition ``wanted`` describes.

    ``fixed`` are generation settings that a suite's protocol asks for instead of the definition's,
    ``samples`` how often a suite's prompts are answered where that is not the definition's number.
    ``folders`` hold response rows of former runs, for the store. Raises :class:`ParamsError` and
    what :func:`answer_prompts` raises.
    """
    model = open_model(name, dict(wanted))
    definitions = {suite: with_fixed(name, wanted, fixed.get(suite, {})) for suite in prompts}
    groups: dict[str, list[str]] = {}  # suites by the definition that answers them
    for suite, definition in definitions.items():
        groups.setdefault(sha256_json(definition), []).append(suite)
    if len(groups) > 1 and ranks()[1] > 1:
        raise ParamsError(
            f"{name}: protocols ask for {len(groups)} ways of generation, which the processes of a "
            "launcher cannot share; set processes: N in the model's definition instead"
        )
    made = ModelRun({}, {}, {}, {}, {})
    times: dict[str, int] = {}
    for group in groups.values():
        definition = definitions[group[0]]
        opened = model if definition == wanted else open_model(name, definition)
        times |= {suite: samples_of(opened, definition, samples.get(suite)) for suite in group}
        responses, counts = answer_prompts(
            {suite: prompts[suite] for suite in group},
            opened,
            store,
            seed,
            name=name,
            folders=folders,
            generator=generator(opened, definition),
            samples=times,
        )
        made.responses |= responses
        made.counts |= counts
        for key, used in opened.usage.items():
            # None is a cost without a price, which all of them have in common.
            made.usage[key] = used if made.usage.get(key) is None else made.usage[key] + used
    keys = (row["request_sha256"] for rows in made.responses.values() for row in rows)
    made.origins = store.origins(keys)
    made.description = {
        "definition": wanted,
        "identity": identity_of(model),
        "seed": seed if model.samples else None,
        **model.description(),
    }
    if set(times.values()) - {1}:
        made.description["samples"] = times
    if fixed:
        made.description["generation"] = {
            suite: generation_settings(name, definitions[suite]) for suite in sorted(fixed)
        }
    return made


def with_description(described: dict[str, Any], folder: Path) -> dict[str, Any]:
    """What is known of a model, and where its weights are not here, what ``model.json`` in a folder of
    its answers says of the same model."""
    path = folder / "model.json"
    if not path.is_file():
        return described
    noted = json.loads(path.read_text("utf-8"))
    if noted.get("identity") != described["identity"]:
        return described
    return {key: noted.get(key) if value is None else value for key, value in described.items()}


def error_warning(suite: str, rows: Sequence[ResponseRow]) -> str:
    """How many answers of a suite are errors, and the first of them; "" where none is."""
    errors = [row["error"] for row in rows if row["error"]]
    if not errors:
        return ""
    passing = sum(error["type"] not in LASTING_ERRORS for error in errors)
    again = f"; `dvc repro` asks {passing} of them again" if passing else ""
    return (
        f"{suite}: {len(errors)} of {len(rows)} answers are errors{again}; the first: "
        f"{errors[0]['type']}: {errors[0]['message']}"
    )


def refuse_only_errors(name: str, responses: Mapping[str, Sequence[ResponseRow]]) -> None:
    """Raises :class:`AdapterError` where not one request of a model was answered."""
    errors = [row["error"] for rows in responses.values() for row in rows]
    first = next(filter(None, errors), None)
    if first is not None and all(errors):
        raise AdapterError(
            f"{name}: all {len(errors)} answers are errors; the first: {first['type']}: "
            f"{first['message']}"
        )
