"""judge: response rows in, verdict rows out.

To add a judge: write its class (:class:`refract.judges.cases.Judge`), and name it in ``JUDGES``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from refract.core.errors import ParamsError
from refract.core.registry import Registry, find
from refract.core.settings import Settings, read_settings
from refract.core.tool_calls import NAMING
from refract.core.types import PromptRow, ResponseRow, Row, VerdictRow, clean_id, is_last, sample_id
from refract.core.vocabulary import FAMILIES, language_code
from refract.judges.calls import Calls, hand_on, next_judge
from refract.judges.cases import Case, Judge, judgeable, unjudged

# Answers that are judged together, and in memory.
AT_ONCE = 20_000
# Judges of refusal that need no model; the first is the default.
SHIPPED = ("refusal", "rules")
JUDGES = Registry(
    {
        "refusal": "refract.judges.refusal:Refusal",
        "refusal_lm": "refract.judges.refusal.language_model:RefusalLM",
        "rules": "refract.judges.rules:Rules",
        "strings": "refract.judges.strings:Strings",
        "calls": "refract.judges.calls:Calls",
        "similarity": "refract.judges.similarity:Similarity",
        "classifier": "refract.judges.classifier:Classifier",
        "coherency": "refract.judges.llm:Coherency",
        "harmfulness": "refract.judges.llm:Harmfulness",
        "llm_refusal": "refract.judges.llm:LLMRefusal",
        "published": "refract.judges.published:PublishedJudge",
        "refusal_cause": "refract.judges.llm:RefusalCause",
        "requirement": "refract.judges.llm:Requirement",
        "rubric": "refract.judges.llm:Rubric",
    },
    "refract.judges",
    "Settings",
    "judge",
    "judges_empty",
    "languages",
)


def read_judge(name: str, definition: Mapping[str, Any]) -> tuple[type[Judge], Settings]:
    """The kind of judge that a definition in params.yaml names, and its settings.

    Raises :class:`ParamsError` for a definition that its kind cannot use.
    """
    where = f"judges.{name}"
    kind = find(JUDGES, definition.get("kind"), f"{where}: kind")
    given = {key: value for key, value in definition.items() if key not in ("kind", "validate")}
    validate = definition.get("validate", False)
    if not isinstance(validate, bool):
        raise ParamsError(f"{where}: validate must be true or false (got {validate!r})")
    return kind, read_settings(kind.Settings, where, given)


def open_judge(name: str, definition: Mapping[str, Any]) -> Judge:
    """The judge of a definition in params.yaml: ``kind``, its settings and perhaps ``validate``,
    which is for the stage validate-judges and changes no verdict.

    Raises :class:`ParamsError` for what cannot be used, before the judge costs anything.
    """
    kind, settings = read_judge(name, definition)
    judge = kind(name, settings)
    if judge.FAMILY not in FAMILIES:
        raise ParamsError(
            f"judges.{name}: nothing counts verdicts of the family {judge.FAMILY!r}; FAMILY must be "
            f"one of {', '.join(FAMILIES)}"
        )
    if definition.get("validate") and not FAMILIES[judge.FAMILY].tells_refusal:
        raise ParamsError(
            f"judges.{name}: validate: true is for judges that label refusal; this one says "
            f"{', '.join(FAMILIES[judge.FAMILY].labels) or 'a score alone'}"
        )
    return judge


def open_judges(definitions: Mapping[str, Mapping[str, Any]]) -> dict[str, Judge]:
    """The judges of some definitions by name; see :func:`open_judge`."""
    return {name: open_judge(name, definition) for name, definition in definitions.items()}


def with_calls_judged(
    judges: Mapping[str, Mapping[str, Any]], rows: Iterable[Row]
) -> Mapping[str, Mapping[str, Any]]:
    """Definitions of judges that can read the calls that rows name, and the texts beside them."""
    kinds = [given.get("kind") for given in judges.values()]
    if "calls" not in kinds and any(row.get(field) for row in rows for field in NAMING):
        judges = {"calls": {"kind": "calls"}, **judges}
    return {**judges, "refusal": {"kind": "refusal"}} if kinds == ["calls"] else judges


def check_counted(suite: str, judges: Mapping[str, Judge], *, perturbed: bool) -> None:
    """Raises :class:`ParamsError` where verdicts of a suite's judges would reach no measure.

    The first judge decides the outcomes, so it must label refusal. A judge of similarity compares
    answers to perturbed prompts, so there must be some.
    """
    first, *rest = judges
    if isinstance(judges[first], Calls) and next_judge(rest, judges) is None:
        raise ParamsError(
            f"suites.{suite}: judges: {first} reads calls alone; put a judge behind it that reads "
            f"texts, as in [{first}, refusal]"
        )
    for name, judge in judges.items():
        family = FAMILIES[judge.FAMILY]
        says = ", ".join(family.labels) or "a score alone"
        if name == first and not family.tells_refusal:
            raise ParamsError(
                f"suites.{suite}: judges: the first decides refusal, and {name} gives {says}; put "
                f"one that labels refusal before it, as in [rules, {name}]"
            )
        if judge.FAMILY == "similarity" and not perturbed:
            raise ParamsError(
                f"suites.{suite}: judges: {name} compares answers to perturbed prompts, and the "
                "suite has no perturbations; add some, or leave it out"
            )


def judge_suite(
    prompts: Sequence[PromptRow],
    responses: Sequence[ResponseRow],
    sources: Mapping[str, Row],
    judges: Mapping[str, Judge],
) -> list[VerdictRow]:
    """Verdict rows for the responses of one suite, in the order of its prompts.

    ``sources`` are the suite's rows by id; ``judges`` come from :func:`open_judges`.
    """
    prompt_of = {row["prompt_id"]: row for row in prompts}
    response_of = {row["prompt_id"]: row for row in responses}
    return list(judge_rows(prompt_of, response_of, sources, judges))


def judge_rows(
    prompts: Mapping[str, PromptRow],
    responses: Mapping[str, ResponseRow],
    sources: Mapping[str, Row],
    judges: Mapping[str, Judge],
) -> Iterator[VerdictRow]:
    """The same of rows by prompt id, which need not be in memory: ``AT_ONCE`` answers are."""
    rest = iter(prompts.values())
    while some := list(islice(rest, AT_ONCE)):
        yield from _judged([_case(row, prompts, responses, sources) for row in some], judges)


def _judged(cases: Sequence[Case], judges: Mapping[str, Judge]) -> list[VerdictRow]:
    rows: list[VerdictRow] = [{"prompt_id": x.prompt["prompt_id"], "judges": {}} for x in cases]
    for name, judge in judges.items():
        empty = judge.judges_empty
        judged = [i for i, case in enumerate(cases) if judgeable(case.response, empty=empty)]
        verdicts = judge.judge([cases[index] for index in judged])
        known = FAMILIES[judge.FAMILY].labels
        strange = {str(verdict["label"]) for verdict in verdicts} - {*known, "None"}
        if strange:
            raise ParamsError(
                f"judges.{name}: gives the label {', '.join(sorted(strange))}; the labels of "
                f"the family {judge.FAMILY} are {', '.join(known) or 'none'}"
            )
        for row in rows:
            row["judges"][name] = unjudged()
        for index, verdict in zip(judged, verdicts, strict=True):
            if not judgeable(cases[index].response):  # it counts by its label, and not as empty
                verdict["of_empty"] = True
            rows[index]["judges"][name] = verdict
    for row in rows:
        hand_on(row["judges"], judges)
    return rows


def _case(
    prompt: PromptRow,
    prompts: Mapping[str, PromptRow],
    responses: Mapping[str, ResponseRow],
    sources: Mapping[str, Row],
) -> Case:
    id_, sample = prompt["prompt_id"], prompt.get("sample", 1)
    source, own_clean = sources[prompt["source_id"]], clean_id(prompt)
    perturbed = prompt["perturbation"] is not None
    other: str | None = own_clean if perturbed else source.get("pair_id")
    if other is not None and not perturbed:
        other = sample_id(other, sample) if is_last(prompt) else None
    pair = None
    if other is not None and other in prompts and other != id_ and judgeable(responses[other]):
        pair = Case(prompts[other], responses[other], sources[prompts[other]["source_id"]])
    # A further sample of a clean prompt is compared with the first: the noise of sampling.
    first = responses.get(clean_id(prompt, first=True)) if sample > 1 else None
    clean = responses.get(own_clean) if perturbed else first
    return Case(prompt, responses[id_], source, clean, pair)


def noting_errors(
    rows: Iterable[VerdictRow], errors: Mapping[str, Counter[str]]
) -> Iterator[VerdictRow]:
    """The same rows, one by one; counts the errors of each judge by their texts."""
    for row in rows:
        for judge, verdict in row["judges"].items():
            if verdict["error"]:
                errors[judge][verdict["error"]] += 1
        yield row


def language_warnings(rows: Iterable[Row], judges: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A warning for each judge, by its name with its definition, that was not made for the language of
    some rows of a suite."""
    counts = Counter(row["language"] for row in rows if isinstance(row.get("language"), str))
    warnings = []
    for name, definition in judges.items():
        known = find(JUDGES, definition.get("kind"), f"judges.{name}: kind").languages
        unread = {of: n for of, n in counts.items() if known and language_code(of) not in known}
        if unread:
            listed = ", ".join(f"{language} {n}" for language, n in sorted(unread.items()))
            warnings.append(
                f"{name} was not measured in the language of {sum(unread.values())} rows ({listed}): "
                "refusals in it may count as compliance; use a judge that reads it, such as a model "
                "(kind: llm_refusal, docs/judges.md)"
            )
    return warnings
