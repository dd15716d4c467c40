"""``refract verify``: recorded answers checked by one pass over each, without generating them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, cast

import typer

from refract.core.errors import UsageError
from refract.core.showing import json_text, say
from refract.core.types import Row

if TYPE_CHECKING:
    from refract.models.hf import HF
    from refract.models.protocol import Answer, Model, Request
    from refract.project import Project


# Adapters whose models have weights that can answer exactly.
WITH_WEIGHTS = ("hf", "vllm")


class RecordedAnswers(NamedTuple):
    """Recorded answers: whose they are, what ``model.json`` says of it, and the rows by suite."""

    name: str
    model: Row
    rows: Mapping[str, list[Row]]


class Verification(NamedTuple):
    """What was found of a suite's answers: counts, the bound, and a line for each that fails."""

    suite: str
    counts: Counter[str]
    bound: float
    failures: list[Row]

    def __str__(self) -> str:
        counts = self.counts
        checked = sum(counts[key] for key in ("holds", "fails"))
        text = (
            f"{self.suite}: {counts['holds']} of {checked} answers are certified under a measured "
            f"bound of {self.bound:.1e}; {counts['float64']} tokens decided in float64, "
            f"{counts['ties']} ties"
        )
        for key, reason in (
            ("from_text", "have no token ids, so that their text was tokenised"),
            ("unchecked", "not checked (errors, filtered or thinking without tokens)"),
            ("unknown", "of no request that is known here"),
        ):
            text += f"; {counts[key]} {reason}" if counts[key] else ""
        return text


def verify(
    what: Annotated[str, typer.Argument()],
    weights: str | None = None,
    format_: Annotated[Literal["text", "json"], typer.Option("--format")] = "text",
) -> None:
    """Check recorded answers against a model's weights, without generating them; exit with 1 unless
    each token is the exact one.

    One pass over each answer; what fast arithmetic leaves open, float64 decides. An answer without token
    ids (of a server, say) has its text tokenised.

    Example: refract verify smollm2_135m

    Args:
        what: A model of params.yaml (its answers in data/answers and data/responses), a results file of
          `refract run` with its rows beside it, or response rows: a folder or a JSONL file.
        weights: The model of params.yaml whose weights answer; default: the model itself.
        format_: How it is printed.
    """
    from refract.project import find_project

    project = find_project()
    recorded = _recorded(what, project)
    found = list(verified(recorded, weights, project))
    if format_ == "json":
        shown = [
            {"suite": v.suite, **v.counts, "bound": v.bound, "failures": v.failures} for v in found
        ]
        say(json_text(shown))
    else:
        show(found)
    # Of a model of params.yaml, the pipeline takes no answer to a request that is not known either.
    unknown = "unknown" if "identity" in recorded.model else "fails"
    wrong = any(v.counts["fails"] or v.counts[unknown] for v in found)
    raise typer.Exit(int(wrong or not any(v.counts["holds"] for v in found)))


def show(found: list[Verification]) -> None:
    """Prints a line for each suite and for each answer that fails."""
    for verification in found:
        failed = (f"  {x['prompt_id']}: {x['problem']}" for x in verification.failures)
        say("\n".join([str(verification), *failed]))


def _recorded(what: str, project: Project) -> RecordedAnswers:
    """The recorded answers that an argument names. Raises :class:`UsageError`."""
    from refract.core.jsonl import has_form, read_rows
    from refract.results.sources import RUN_ROWS, read_run

    path = Path(what)
    if what in (project.params.get("models") or {}):
        return recorded_answers(what, project)
    if path.suffix == ".json" and path.is_file():
        results, beside = read_run(path, edited=True), path.with_suffix(RUN_ROWS)
        if not beside.is_file():
            writes = f"`refract run --rows {beside.name}` writes them"
            raise UsageError(f"{path}: no answers beside it; {writes}")
        by_suite: dict[str, list[Row]] = {}
        for row in read_rows(beside):
            by_suite.setdefault(str(row.get("suite")), []).append(row)
        return RecordedAnswers(results["model"], results["provenance"]["model"], by_suite)
    if path.is_dir() or (path.suffix == ".jsonl" and path.is_file()):
        folder = path if path.is_dir() else path.parent
        made = _of_files(folder.resolve().name, sorted(path.glob("*.jsonl")) or [path])
        if not has_form(made.model, {"identity": {}, "definition": {"adapter": str}}):
            raise UsageError(f"{folder} has no model.json, which says what made its answers")
        return made
    known = ", ".join(project.params.get("models") or {})
    raise UsageError(f"{what!r} is no file, no folder and no model of params.yaml ({known})")


def recorded_answers(name: str, project: Project) -> RecordedAnswers:
    """The answers of a model of params.yaml that are recorded in a project."""
    from refract.models.answering import ANSWERS
    from refract.project import find_model

    folders = [project.folder / kind / name for kind in (ANSWERS, Path("data/responses"))]
    files = [file for folder in folders for file in sorted(folder.glob("*.jsonl"))]
    if not files:
        places = " or ".join(map(str, folders))
        raise UsageError(f"{name} has no answers in {places}; run: dvc repro")
    made = _of_files(name, files)
    fixed: Row = {key: made.model.get(key) for key in ("samples", "generation")}
    return made._replace(model={**fixed, "definition": find_model(name, project)})


def _of_files(name: str, files: list[Path]) -> RecordedAnswers:
    """Response rows of files, each distinct one once, and what the first ``model.json`` says."""
    from refract.core.jsonl import parse_json, read_rows

    rows: dict[str, dict[str, Row]] = {}
    for file in files:
        of_suite = rows.setdefault(file.stem, {})
        for row in read_rows(file):
            of_suite.setdefault(f"{row.get('request_sha256')} {row.get('answer_sha256')}", row)
    described = (file.parent / "model.json" for file in files)
    model: Row = next((parse_json(path.read_bytes()) for path in described if path.is_file()), {})
    by_suite = {suite: list(of_suite.values()) for suite, of_suite in rows.items()}
    return RecordedAnswers(name, model, by_suite)


def verified(
    recorded: RecordedAnswers, weights: str | None, project: Project
) -> Iterator[Verification]:
    """What is found of each suite's answers. Raises :class:`UsageError`, and
    :class:`refract.models.protocol.AdapterError` where the weights are not here."""
    from refract.core.jsonl import canonical_json
    from refract.models import generation_settings, identity_of, open_model, with_fixed
    from refract.models.checkpoint import LocalModelSettings
    from refract.models.store import request_sha256
    from refract.project import find_model

    made, local = recorded.model, project.params.get("models") or {}
    definition, name = made["definition"], weights or recorded.name
    if definition.get("adapter") not in (*WITH_WEIGHTS, "openai"):
        has = f"{recorded.name} has adapter {definition.get('adapter')!r}"
        raise UsageError(f"{has}; answers of hf, vllm and openai models can be verified")
    if (local.get(name) or {}).get("adapter") not in WITH_WEIGHTS:
        those = ", ".join(n for n, one in local.items() if one.get("adapter") in WITH_WEIGHTS)
        raise UsageError(
            f"{name} is no model of params.yaml with weights (adapter: hf or vllm); name with --weights "
            f"the one that answered (there are: {those or 'none'})"
        )
    opened: dict[str, HF] = {}
    for suite, rows in recorded.rows.items():
        fixed = (made.get("generation") or {}).get(suite) or {}
        asked = with_fixed(recorded.name, definition, fixed)
        settings = {"loop_tokens": None, **generation_settings(recorded.name, asked)}
        if asked["adapter"] != "hf" and settings["temperature"] != 0:
            raise UsageError(
                f"{recorded.name}: a server draws with numbers of its own; answers of temperature: 0 "
                f"can be verified (got {settings['temperature']})"
            )
        source = open_model(recorded.name, asked)
        stated = made["identity"] if "identity" in made and not fixed else identity_of(source)
        with_weights = find_model(name, project)
        if with_weights["adapter"] == "vllm":  # exact decoding of the same checkpoint
            kept = with_weights.keys() & LocalModelSettings.model_fields.keys()
            with_weights = {"adapter": "hf"} | {key: with_weights[key] for key in kept}
        wanted = with_fixed(name, with_weights, settings)
        wanted |= {"arithmetic": "exact", "samples": 1}
        wanted |= {} if wanted.get("quantization") else {"dtype": "float32"}
        if (model := opened.get(canonical_json(wanted))) is None:
            model = opened[canonical_json(wanted)] = cast("HF", open_model(name, wanted))
        by_hash = {
            request_sha256(canonical_json(stated), request, source): request
            for request in _requests(recorded, suite, project, source, canonical_json(stated))
        }
        known = [row for row in rows if str(row.get("request_sha256")) in by_hash]
        answers = list(map(_answer, known))
        counts, failures = Counter(unknown=len(rows) - len(known)), []
        asked_again = [by_hash[row["request_sha256"]] for row in known]
        for index, checked in model.verify(asked_again, answers):
            found = "fails" if checked.problem else "unchecked" if checked.unchecked else "holds"
            counts.update({found: 1, "float64": checked.float64, "ties": checked.ties})
            counts["from_text"] += checked.from_text
            if checked.problem:
                numbers = asdict(checked)
                failures.append({"prompt_id": str(known[index].get("prompt_id")), **numbers})
        failures.sort(key=lambda failure: failure["prompt_id"])
        yield Verification(suite, counts, (model.runtime or {}).get("bound", 0.0), failures)


def _answer(row: Row) -> Answer:
    """The answer of a row; one of `refract run` may hold the error of a judge."""
    from refract.models.store import ANSWER_FIELDS, answer_of

    error = row.get("error") if row.get("finish_reason") == "error" else None
    return answer_of([{**row, "error": error}.get(key) for key in ANSWER_FIELDS])


def _requests(
    recorded: RecordedAnswers, suite: str, project: Project, source: Model, identity: str
) -> Iterator[Request]:
    """The requests that a suite's rows may be answers to: of the project's suite of this name, and of
    the prompts in the rows themselves."""
    from refract.core.params import run_seed
    from refract.core.types import PromptRow
    from refract.models.answering import request_of, requests_by_turn
    from refract.suites.perturbations import suite_prompts

    seed = recorded.model.get("seed", run_seed(project.params)) if source.samples else None
    times = (recorded.model.get("samples") or {}).get(suite, 1)
    if suite in (project.params.get("suites") or {}):
        prompts = suite_prompts(project.params, suite, project.folder).rows
        own = {str(row.get("request_sha256")): _answer(row) for row in recorded.rows[suite]}
        of_suite = {suite: prompts}, source, seed or 0, {suite: times}, own, identity
        for requests in requests_by_turn(*of_suite):
            yield from requests.values()
    for row in recorded.rows[suite]:
        if isinstance(row.get("prompt"), str | list):
            id_ = str(row.get("prompt_id"))
            of_sample = re.search(r"~(\d{1,6})$", id_) if times > 1 else None
            prompt: PromptRow = {
                "prompt_id": id_,
                "source_id": id_,
                "suite": suite,
                "category": row.get("category", "harmful"),
                "perturbation": None,
                "attempts": [row["prompt"]],
                "seed": None,
                "sample": int(of_sample[1]) if of_sample else 1,
            }
            yield request_of(prompt, seed)
