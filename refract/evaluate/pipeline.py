"""The pipeline as one function: prompt rows in; answers, verdicts and rates out."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from refract.core.types import PromptRow, ResponseRow, Row, VerdictRow, answered_prompts
from refract.judges import check_counted, judge_suite, open_judges
from refract.judges.protocol import Judge
from refract.models.answering import Count, answer_prompts
from refract.models.protocol import Model
from refract.models.store import ResponseStore
from refract.models.store.generating import Generate
from refract.rates import Aggregate, aggregate_suite
from refract.rates.counting import CONFIDENCE


class Suite(NamedTuple):
    """A suite to measure: its rows, the prompt rows made of them, and its definition.

    Of the definition ``judges`` (the first decides refusal), ``perturbations``, ``fields``,
    ``thresholds``, ``max_unjudged``, ``cut_off`` and ``cluster`` count.
    """

    sources: Sequence[Row]
    prompts: Sequence[PromptRow]
    definition: Mapping[str, Any]


class Measured(NamedTuple):
    """What came of one suite: its prompts with their samples, responses and verdicts in the same
    order, outcomes and rates, and how many answers were reused and generated."""

    prompts: Sequence[PromptRow]
    responses: list[ResponseRow]
    verdicts: list[VerdictRow]
    rates: Aggregate
    counts: Count


def measure(
    suites: Mapping[str, Suite],
    model: Model,
    judges: Mapping[str, Mapping[str, Any]],
    store: ResponseStore,
    *,
    seed: int = 0,
    name: str = "",
    fresh: Container[str] = (),
    generator: Generate | None = None,
    confidence: float = CONFIDENCE,
    samples: Mapping[str, int] | None = None,
    folders: Iterable[Path] = (),
) -> dict[str, Measured]:
    """The answers of a model to some suites, the judges' verdicts on them, and rates, by suite.

    ``judges`` maps the names that the suites' definitions use to definitions of judges; ``name`` is
    the model's, for the store and for progress. Prompts whose source id is in ``fresh`` are answered
    in a second pass, which reuses no answer and stores none. ``generator`` says how answers are
    generated where not by ``model`` in this process
    (:func:`refract.models.processes.generator`), ``samples`` how often the prompts of a suite are
    answered where that is not once, ``folders`` where response rows with known answers are. Raises
    :class:`refract.core.errors.RefractError`; wrong definitions of judges before the model costs
    anything.
    """
    opened = open_judges(judges)
    for suite, found in suites.items():
        own = {judge: opened[judge] for judge in found.definition["judges"]}
        check_counted(suite, own, perturbed=bool(found.definition.get("perturbations")))
    first, second = (
        {
            suite: [row for row in found.prompts if (row["source_id"] in fresh) is again]
            for suite, found in suites.items()
        }
        for again in (False, True)
    )
    responses, counts = answer_prompts(
        first,
        model,
        store,
        seed,
        name=name,
        folders=folders,
        generator=generator,
        samples=samples,
    )
    if any(second.values()):
        more, more_counts = answer_prompts(
            second, model, ResponseStore(None), seed, name=name, samples=samples
        )
        for suite, count in more_counts.items():
            responses[suite] += more[suite]
            counts[suite].generated += count.generated
            counts[suite].errors += count.errors
    return {
        suite: _score(found, responses[suite], judges, opened, counts[suite], confidence)
        for suite, found in suites.items()
    }


def _score(
    suite: Suite,
    responses: Sequence[ResponseRow],
    definitions: Mapping[str, Mapping[str, Any]],
    judges: Mapping[str, Judge],
    count: Count,
    confidence: float,
) -> Measured:
    by_id = {row["prompt_id"]: row for row in responses}
    prompts = answered_prompts(suite.prompts, responses)
    in_order = [by_id[row["prompt_id"]] for row in prompts]
    used = {name: judges[name] for name in suite.definition["judges"]}
    sources = {row["id"]: row for row in suite.sources}
    verdicts = judge_suite(prompts, in_order, sources, used)
    rates = aggregate_suite(
        suite.sources,
        prompts,
        in_order,
        verdicts,
        suite.definition,
        definitions,
        {name: judge.FAMILY for name, judge in used.items()},
        confidence,
    )
    return Measured(prompts, in_order, verdicts, rates, count)
