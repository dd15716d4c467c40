"""judge: response rows in, verdict rows out.

To add a judge: write its class (:class:`refract.judges.cases.Judge`) and name
it in ``JUDGES``.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, cast

from refract.core.errors import ParamsError
from refract.core.file_formats import row_key
from refract.core.registry import Registry, find
from refract.core.settings import Settings, read_settings
from refract.core.showing import say
from refract.core.tool_calls import NAMING
from refract.core.types import (
    FinishReason,
    PromptRow,
    ResponseRow,
    Row,
    Verdict,
    VerdictRow,
    filled,
    given_prompt,
    given_response,
    thought_in,
)
from refract.core.vocabulary import FAMILIES, language_code
from refract.judges.cases import AnsweredSuite, Case, Judge, judgeable, unjudged
from refract.judges.kept import judge_kept
from refract.suites.rows import unsent_fields

# Answers that are judged together; no more are in memory.
AT_ONCE = 20_000
# Kinds that look for something in answers that thinking has not.
OF_ANSWERS = (
    "bert_score",
    "bert_score_reference",
    "calls",
    "reference",
    "similarity",
    "strings",
)
# Judges of refusal that need no model; the first is the default.
SHIPPED = ("refusal", "rules")
JUDGES = Registry(
    {
        "refusal": "refract.judges.refusal:Refusal",
        "rules": "refract.judges.rules:Rules",
        "strings": "refract.judges.strings:Strings",
    },
    "refract.judges",
    "Settings",
    "judge",
    "judges_empty",
    "judges_steps",
    "hands_on",
    "cases_a_process",
    "languages",
    "other_languages",
    "columns",
    "decided_by",
)
Definitions = Mapping[str, Mapping[str, Any]]


def read_judge(name: str, definition: Mapping[str, Any]) -> tuple[type[Judge], Settings]:
    """The kind of judge that a definition in params.yaml names, and its
    settings.

    Raises :class:`ParamsError` for a definition that its kind cannot use.
    """
    where = f"judges.{name}"
    kind = find(JUDGES, definition.get("kind"), f"{where}: kind")
    settings = dict(definition)
    settings.pop("kind")
    validate = settings.pop("validate", False)
    if not isinstance(validate, bool):
        raise ParamsError(f"{where}: validate must be true or false (got {validate!r})")
    reads = settings.pop("reads", "answer")
    if reads not in ("answer", "thinking"):
        raise ParamsError(f"{where}: reads must be answer or thinking (got {reads!r})")
    if reads == "thinking" and definition["kind"] in OF_ANSWERS:
        raise ParamsError(f"{where}: a judge of the kind {definition['kind']} reads answers alone")
    return kind, read_settings(kind.Settings, where, settings)


def open_judge(name: str, definition: Mapping[str, Any]) -> Judge:
    """The judge of a definition in params.yaml.

    ``validate`` is for the stage validate-judges and changes no verdict. Raises
    :class:`ParamsError` for a definition that cannot be used, before the judge
    costs anything.
    """
    kind, settings = read_judge(name, definition)
    judge = kind(name, settings)
    judge.FAMILY = _family_read(getattr(judge, "FAMILY", ""), definition)
    if definition.get("reads") == "thinking":
        judge.reads = "thinking"
    if judge.FAMILY not in FAMILIES:
        raise ParamsError(
            f"judges.{name}: nothing counts verdicts of the family {judge.FAMILY!r}; FAMILY must be "
            f"one of {', '.join(FAMILIES)}"
        )
    if definition.get("validate") and not FAMILIES[judge.FAMILY].tells_refusal:
        raise ParamsError(
            f"judges.{name}: validate: true is for judges that label refusal in answers; this one "
            f"says {_labels(judge) or 'a score alone'} (reads: {judge.reads})"
        )
    return judge


class DefinedJudge(NamedTuple):
    """What a judge's definition alone says of it: the files that it names need not be there."""

    FAMILY: str
    hands_on: bool
    reads: str


def defined_judge(name: str, definition: Mapping[str, Any]) -> DefinedJudge:
    """What of a judge decides which measures its verdicts reach. Raises :class:`ParamsError`."""
    kind, settings = read_judge(name, definition)
    # That of a published judge is by its settings.
    family = kind.FAMILY if hasattr(kind, "FAMILY") else kind(name, settings).FAMILY
    reads = definition.get("reads", "answer")
    return DefinedJudge(_family_read(family, definition), kind.hands_on, reads)


def _family_read(family: str, definition: Mapping[str, Any]) -> str:
    """What labels of a family are of a judge that may read thinking."""
    if family == "refusal" and definition.get("reads") == "thinking":
        return "refusal_in_thought"
    return family


def _labels(judge: Judge | DefinedJudge) -> str:
    return ", ".join(FAMILIES[judge.FAMILY].labels)


def open_judges(definitions: Definitions) -> dict[str, Judge]:
    """Judges by name; see :func:`open_judge`."""
    return {name: open_judge(name, definition) for name, definition in definitions.items()}


def judges_to_measure(definitions: Definitions) -> dict[str, Mapping[str, Any]]:
    """Those that validate-judges measures: the ``SHIPPED`` kinds, and others with
    ``validate: true``. None has been measured on thinking.
    """
    measured = {}
    for name, definition in definitions.items():
        if definition.get("reads") == "thinking":
            continue
        if definition.get("validate", definition.get("kind") in SHIPPED):
            measured[name] = definition
    return measured


def with_calls_judged(judges: Definitions, rows: Iterable[Row]) -> Definitions:
    """The judges, with those added that tool calls need.

    ``calls`` goes first where rows name calls; ``refusal`` follows a lone
    ``calls``, to read texts.
    """
    kinds = [judge.get("kind") for judge in judges.values()]
    if "calls" not in kinds and any(row.get(field) for row in rows for field in NAMING):
        judges = {"calls": {"kind": "calls"}, **judges}
    return {**judges, "refusal": {"kind": "refusal"}} if kinds == ["calls"] else judges


def check_counted(
    suite: str, judges: Mapping[str, Judge] | Mapping[str, DefinedJudge], *, perturbed: bool
) -> None:
    """Raises :class:`ParamsError` where verdicts of a suite's judges would
    reach no measure.

    The first judge decides the outcomes, so it must label refusal. A judge of
    similarity compares answers to perturbed prompts, so there must be some.
    """
    where = f"suites.{suite}: judges:"
    first = next(iter(judges))
    if judges[first].hands_on and next_judge(first, judges) is None:
        raise ParamsError(
            f"{where} {first} reads calls alone; put a judge behind it that reads "
            f"texts, as in [{first}, refusal]"
        )
    for name, judge in judges.items():
        if name == first and judge.reads == "thinking":
            raise ParamsError(
                f"{where} the first decides refusal by the answers, and {name} reads thinking; put one "
                f"that reads answers before it, as in [refusal, {name}]"
            )
        if name == first and not FAMILIES[judge.FAMILY].tells_refusal:
            raise ParamsError(
                f"{where} the first decides refusal, and {name} gives "
                f"{_labels(judge) or 'a score alone'}; put one that labels refusal before it, as in "
                f"[rules, {name}]"
            )
        if judge.FAMILY == "similarity" and not perturbed:
            raise ParamsError(
                f"{where} {name} compares answers to perturbed prompts, and the "
                "suite has no perturbations; add some, or leave it out"
            )


def next_judge(name: str, judges: Mapping[str, Judge] | Mapping[str, DefinedJudge]) -> str | None:
    """The first judge behind this one that reads texts and labels refusal."""
    names = list(judges)
    for other in names[names.index(name) + 1 :]:
        if FAMILIES[judges[other].FAMILY].tells_refusal and not judges[other].hands_on:
            return other
    return None


def _hand_on(verdicts: dict[str, Verdict], judges: Mapping[str, Judge]) -> None:
    """Lets the next judge of refusal decide what one that ``hands_on`` left open."""
    for name, judge in judges.items():
        if judge.hands_on and verdicts[name]["label"] is None:
            following = next_judge(name, judges)
            if following is not None:
                verdicts[name] = {"reason": f"by {following}", **verdicts[following]}


def judge_suite(
    prompts: Sequence[PromptRow],
    responses: Sequence[ResponseRow],
    sources: Mapping[str, Row],
    judges: Mapping[str, Judge],
) -> list[VerdictRow]:
    """Verdict rows for the responses of one suite, in the order of its prompts.

    ``sources`` are the suite's rows by id; ``judges`` come from
    :func:`open_judges`. How many verdicts are reused is said on standard error, where
    any are.
    """
    answered = AnsweredSuite(
        {row["prompt_id"]: row for row in prompts},
        {row["prompt_id"]: row for row in responses},
        sources,
    )
    counts = Counter(reused=0, judged=0)
    rows = list(judge_rows(answered, judges, counts))
    if counts["reused"]:
        reused, judged = counts["reused"], counts["judged"]
        say(f"judge: {reused:,} verdicts reused, {judged:,} judged", file=sys.stderr)
    return rows


def judge_answers(rows: Sequence[Row], judges: Mapping[str, Judge]) -> list[dict[str, Verdict]]:
    """Verdicts on answers that were given, by judge. A row has ``response`` (None: there is
    none), and perhaps ``prompt`` (a text or messages), ``finish_reason``, ``tool_calls`` and what
    the judges need."""
    prompts, responses, sources = [], [], {}
    # Rows are told apart by their place: ids may repeat, as those of several models do.
    keys = []
    for number, row in enumerate(rows, 1):
        ids = (row.get("prompt_id"), row.get("id"), number)
        keys.append(row_key(next(id_ for id_ in ids if id_ is not None), row))
    places = {key: str(number) for number, key in reversed([*enumerate(keys, 1)])}
    for number, row in enumerate(rows, 1):
        id_, prompt, text = str(number), row.get("prompt") or "", row.get("response")
        pair = filled(row.get("pair_id"))
        key = None if pair is None else row_key(pair, row)
        pair = None if key in (None, keys[number - 1]) else places.get(key)
        sources[id_] = {**row, "id": id_, "prompt": prompt, "pair_id": pair}
        prompts.append(given_prompt(id_, prompt))
        reason = "error" if text is None else row.get("finish_reason") or "stop"
        responses.append(given_response(id_, text or "", cast(FinishReason, reason)))
        if isinstance(row.get("tool_calls"), list):
            responses[-1]["tool_calls"] = row["tool_calls"]
    return [row["judges"] for row in judge_suite(prompts, responses, sources, judges=judges)]


def judge_rows(
    suite: AnsweredSuite, judges: Mapping[str, Judge], counts: Counter[str] | None = None
) -> Iterator[VerdictRow]:
    """The verdict rows of a suite, in the order of its prompts; ``counts`` is that of
    :func:`refract.judges.kept.judge_kept`."""
    remaining = iter(suite.prompts)
    while True:
        cases = [suite.case(prompt_id) for prompt_id in islice(remaining, AT_ONCE)]
        if not cases:
            return
        yield from judge_cases(cases, judges, counts)


def judge_cases(
    cases: Sequence[Case], judges: Mapping[str, Judge], counts: Counter[str] | None = None
) -> list[VerdictRow]:
    """The verdicts of the judges on some cases, in order."""
    rows: list[VerdictRow] = []
    for case in cases:
        verdicts_by_judge = {name: unjudged() for name in judges}
        rows.append({"prompt_id": case.prompt["prompt_id"], "judges": verdicts_by_judge})
    for name, judge in judges.items():
        thinks = judge.reads == "thinking"
        readable = [case.of_thinking if thinks else case for case in cases]
        empty = judge.judges_empty and not thinks
        judged = []
        for index, case in enumerate(readable):
            steps = judge.judges_steps and case.called_before
            if steps or judgeable(case.response, empty=empty):
                judged.append(index)
        verdicts = judge_kept(judge, [readable[index] for index in judged], counts)
        labels = {str(verdict["label"]) for verdict in verdicts}
        unknown = labels.difference(FAMILIES[judge.FAMILY].labels, ["None"])
        if unknown:
            raise ParamsError(
                f"judges.{name}: gives the label {', '.join(sorted(unknown))}; the labels of "
                f"the family {judge.FAMILY} are {_labels(judge) or 'none'}"
            )
        for index, verdict in zip(judged, verdicts, strict=True):
            response = readable[index].response
            if not judgeable(response, empty=empty):
                if verdict["label"] is None:
                    continue  # how the answer ended decides
                verdict["of_steps"] = True
            elif not judgeable(response):
                verdict["of_empty"] = True  # it counts by its label, and not as empty
            rows[index]["judges"][name] = verdict
        if thinks:
            for row in rows:
                row["judges"][name]["reads"] = "thinking"
    for row in rows:
        _hand_on(row["judges"], judges)
    return rows


def noting_errors(
    rows: Iterable[VerdictRow], errors: Mapping[str, Counter[str]]
) -> Iterator[VerdictRow]:
    """Yields the rows, and counts in ``errors`` the error messages of each judge."""
    for row in rows:
        for judge, verdict in row["judges"].items():
            if verdict["error"]:
                errors[judge][verdict["error"]] += 1
        yield row


def thinking_warnings(responses: Iterable[ResponseRow], judges: Definitions) -> list[str]:
    """A warning for each judge that reads thinking, where some answers come without."""
    thoughts = [bool(thought_in(row).strip()) for row in responses]
    without = thoughts.count(False)
    text = (
        f"reads thinking, which {without} of {len(thoughts)} answers lack: these it does not judge"
    )
    reading = [name for name, judge in judges.items() if judge.get("reads") == "thinking"]
    return [f"{name} {text}" for name in reading] if without else []


def reading_warnings(rows: Iterable[Row], judges: Definitions) -> list[str]:
    """What judges do not read of a suite: a warning for images and the like, which none sees, and
    for each judge that was not measured in the language of some rows."""
    counts: Counter[str] = Counter()
    total_rows = with_images = 0
    unseen: dict[str, None] = {}
    for row in rows:
        total_rows += 1
        fields = ["images"] if row.get("images") else unsent_fields(row)
        with_images += bool(fields)
        unseen |= dict.fromkeys(fields)
        if isinstance(row.get("language"), str):
            counts[row["language"]] += 1
    warnings = []
    if with_images:
        warnings.append(
            f"{with_images} of {total_rows} prompts hold {', '.join(unseen)} that no judge saw: "
            "verdicts are of the texts alone"
        )
    for name, definition in judges.items():
        languages = find(JUDGES, definition.get("kind"), f"judges.{name}: kind").languages
        unread: Counter[str] = Counter()
        for language, count in sorted(counts.items()):
            if languages and language_code(language) not in languages:
                unread[language] = count
        if unread:
            listed = ", ".join(f"{language} {count}" for language, count in unread.items())
            warnings.append(
                f"{name} was not measured on models' answers in the language of {unread.total()} rows "
                f"({listed}): verdicts may be wrong either way; use a judge that reads it, such as a "
                "model (kind: llm_refusal, docs/judges.md#other-languages)"
            )
    return warnings
