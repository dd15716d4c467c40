"""The kinds of judge. To add one: write its function here, and name it in ``KINDS``.

A judge takes the cases of one suite that have a text to judge, and its definition from params.yaml;
it returns one verdict for each case, in order: ``label`` (None where it says nothing), ``refused``
(where the label means that), ``score``, ``evidence`` and ``error``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from refract.errors import ParamsError
from refract.judges.cases import Case, judgeable, unjudged
from refract.rows.jsonl import Row
from refract.rows.suites import STRING_FLAGS

Definition = Mapping[str, Any]


class Kind(NamedTuple):
    """A kind of judge: its function, its code's version, the settings a definition may hold, and
    what raises :class:`ParamsError` for values of theirs that cannot be used."""

    judge: Callable[[Sequence[Case], Definition], list[Row]]
    version: Callable[[Definition], str]
    settings: tuple[str, ...] = ()
    check: Callable[[Definition], None] = lambda definition: None


def _rules(cases: Sequence[Case], definition: Definition) -> list[Row]:
    from refract.judges.rules import judge_response

    return [
        {**judge_response(case.response["response"], case.asked), "error": None} for case in cases
    ]


def _rules_version(definition: Definition) -> str:
    from refract.judges.rules import VERSION

    return VERSION


def _strings(cases: Sequence[Case], definition: Definition) -> list[Row]:
    """Looks for the expected strings of rows that have them, and for signs that a task was done."""
    from refract.judges.rules import judge_response
    from refract.judges.strings import judge_strings

    verdicts = []
    for case in cases:
        text, source = case.response["response"], case.source
        if "expected_strings" not in source:
            verdicts.append(unjudged())
            continue
        flags = {flag: source[flag] for flag in STRING_FLAGS if flag in source}
        refused = judge_response(text, case.asked)["refused"]
        verdict = judge_strings(text, source["expected_strings"], refused=refused, **flags)
        if "task_strings" in source:
            verdict["task_done"] = any(
                sign.casefold() in text.casefold() for sign in source["task_strings"]
            )
        verdicts.append(verdict)
    return verdicts


def _strings_version(definition: Definition) -> str:
    from refract.judges.strings import VERSION

    return f"{VERSION}, rules {_rules_version(definition)}"


def _similarity(cases: Sequence[Case], definition: Definition) -> list[Row]:
    """BERTScore of perturbed answers against the clean ones, as the score; no label."""
    from refract.judges.similarity import Similarity

    compared = [index for index, case in enumerate(cases) if case.clean and judgeable(case.clean)]
    verdicts = [unjudged() for _ in cases]
    if not compared:
        return verdicts
    try:
        judge = Similarity(
            {
                key: value
                for key, value in definition.items()
                if key not in ("kind", "output_sensitivity")
            }
        )
        pairs = [(cases[i].clean["response"], cases[i].response["response"]) for i in compared]
        scores = judge.score(pairs)
    except ValueError as error:
        raise ParamsError(f"similarity judge: {error}") from None
    for index, found in zip(compared, scores, strict=True):
        verdicts[index]["score"] = found["similarity"]
        verdicts[index]["truncated"] = found["truncated"]
    return verdicts


def _similarity_version(definition: Definition) -> str:
    from refract.judges.similarity import VERSION

    return VERSION


def _by_model(kind: str, *settings: str) -> Kind:
    """A judge that asks a model, as :mod:`refract.judges.llm` does."""

    def judge(cases: Sequence[Case], definition: Definition) -> list[Row]:
        from refract.judges import llm

        return llm.judge(kind, cases, definition)

    def version(definition: Definition) -> str:
        from refract.judges import llm

        return llm.version(kind, definition)

    def check(definition: Definition) -> None:
        from refract.judges import llm

        llm.check(kind, definition)

    usual = ("description", "eval_prompt", "model", "template", "votes")
    return Kind(judge, version, tuple(sorted((*usual, *settings))), check)


def _classifier(cases: Sequence[Case], definition: Definition) -> list[Row]:
    from refract.judges import classifier

    return classifier.judge(cases, definition)


def _classifier_version(definition: Definition) -> str:
    from refract.judges import classifier

    return classifier.VERSION


def _classifier_check(definition: Definition) -> None:
    from refract.judges import classifier

    classifier.check(definition)


def _recorded_labels(cases: Sequence[Case], definition: Definition) -> list[Row]:
    from refract.judges.recorded import judge_recorded

    return judge_recorded(cases, definition)


def _recorded_labels_version(definition: Definition) -> str:
    from refract.judges.recorded import recorded_version

    return recorded_version(definition)


def _recorded_labels_check(definition: Definition) -> None:
    from refract.judges.recorded import check_recorded

    check_recorded(definition)


KINDS = {
    "rules": Kind(_rules, _rules_version),
    "strings": Kind(_strings, _strings_version),
    "similarity": Kind(
        _similarity,
        _similarity_version,
        ("baseline", "batch_size", "device", "encoder", "layer", "output_sensitivity"),
    ),
    "classifier": Kind(
        _classifier, _classifier_version, ("input", "labels", "model"), _classifier_check
    ),
    "coherency": _by_model("coherency"),
    "harmfulness": _by_model("harmfulness"),
    "refusal": _by_model("refusal"),
    "recorded_labels": Kind(
        _recorded_labels,
        _recorded_labels_version,
        (
            "id_column",
            "label_column",
            "labels",
            "path",
            "prompt_column",
            "response_column",
            "where",
        ),
        _recorded_labels_check,
    ),
    "requirement": _by_model("requirement", "requirement", "requirements"),
    "strongreject": _by_model("strongreject"),
}
