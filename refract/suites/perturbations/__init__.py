"""Perturbations: suite rows in, prompt rows out, one for each variant of each prompt.

To add a kind: write its function and its :class:`~.variants.Perturbation`, and name that in
``PERTURBATIONS``."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from refract.core.errors import ParamsError
from refract.core.params import definition, run_seed
from refract.core.registry import Registry, find
from refract.core.settings import Settings, read_settings
from refract.core.tool_calls import call_problems
from refract.core.types import OWN_ANSWER, Attempt, Message, PromptRow, Row, given_prompt, turn_id
from refract.suites.perturbations.variants import Perturbation, RowKey, VariantSettings
from refract.suites.rows import (
    SuiteError,
    load_suite,
    played_turns,
    sample_rows,
    suite_label,
    user_places,
)

PERTURBATIONS = Registry(
    {
        "char_injection": "refract.suites.perturbations.characters:CHAR_INJECTION",
        "upper": "refract.suites.perturbations.noise:UPPER",
        "lower": "refract.suites.perturbations.noise:LOWER",
        "title": "refract.suites.perturbations.noise:TITLE",
        "typos": "refract.suites.perturbations.noise:TYPOS",
        "punctuation": "refract.suites.perturbations.noise:PUNCTUATION",
        "accents": "refract.suites.perturbations.noise:ACCENTS",
        "ocr": "refract.suites.perturbations.noise:OCR",
        "homoglyphs": "refract.suites.perturbations.noise:HOMOGLYPHS",
        "spelled_numbers": "refract.suites.perturbations.noise:SPELLED_NUMBERS",
        "leetspeak": "refract.suites.perturbations.attacks:LEETSPEAK",
        "encode": "refract.suites.perturbations.attacks:ENCODE",
        "frame": "refract.suites.perturbations.attacks:FRAME",
        "rewrite": "refract.suites.perturbations.attacks:REWRITE",
        "repeat": "refract.suites.perturbations.noise:REPEAT",
    },
    "refract.perturbations",
    "Settings",
    "variants",
)

VARIABLE = re.compile(r"\{(\w+)\}")


def read_perturbation(name: str, given: object) -> tuple[Perturbation[Any], Settings]:
    """The kind of perturbation that a definition names, and its settings. Raises :class:`ParamsError`
    for a definition that cannot be used."""
    where = f"perturbations.{name}"
    if not isinstance(given, Mapping):
        raise ParamsError(f"{where} must map settings to values (got {given!r:.80})")
    kind: Perturbation[Any] = find(PERTURBATIONS, given.get("kind"), f"{where}: kind")
    rest = {key: value for key, value in given.items() if key != "kind"}
    return kind, read_settings(kind.Settings, where, rest)


def features_of(row: Row) -> dict[str, str]:
    """The texts of a suite row that can be perturbed, by name.

    A plain prompt is one feature, ``prompt``; of a conversation it is the last user message."""
    if "features" in row:
        return dict(row["features"])
    if "messages" in row:
        return {"prompt": row["messages"][-1]["content"]}
    return {"prompt": row["prompt"]}


def render(row: Row, features: Mapping[str, str], template: str | None) -> Attempt:
    """What the model is sent for a row whose features have these texts: a text or messages.

    A row of features fills the suite's ``template``, where ``{name}`` stands for a feature. The
    filled-in text is not searched again. Raises :class:`SuiteError` for a name without a feature."""
    if "features" in row:
        if not template:
            raise SuiteError(
                f"row {row['id']!r} has features; its suite's definition needs a template such as "
                f"'{' '.join('{' + name + '}' for name in row['features'])}'"
            )

        def text(match: re.Match[str]) -> str:
            if match[1] not in features:
                raise SuiteError(
                    f"the template asks for {match[1]!r}; row {row['id']!r} has the features "
                    f"{', '.join(sorted(features))}"
                )
            return features[match[1]]

        return VARIABLE.sub(text, template)
    if "messages" in row:
        return [*row["messages"][:-1], {"role": "user", "content": features["prompt"]}]
    return features["prompt"]


class Place(NamedTuple):
    """The turn of the user's that a perturbation changes, the row up to it, and the messages after."""

    turn: int
    until: Row
    after: list[Message]


def changed_at(row: Row, settings: Settings) -> Place | None:
    """Where a perturbation with these settings changes a row; None where it has no such turn. A row
    without a conversation has one."""
    places = user_places(row)
    chosen = settings.turn if isinstance(settings, VariantSettings) else "last"
    turn = len(places) if chosen == "last" else 1 if chosen == "first" else chosen
    if turn > len(places):
        return None
    after = row["messages"][places[turn - 1] + 1 :] if "messages" in row else []
    return Place(turn, {**row, "messages": row["messages"][: -len(after)]} if after else row, after)


def prompt_rows(
    rows: Sequence[Row],
    suite: str,
    seed: int,
    perturbations: Mapping[str, Mapping[str, Any]] | None = None,
    template: str | None = None,
    as_sent: Callable[[Row, Mapping[str, str], str | None], Any] = render,
    tools: Sequence[Row] | None = None,
) -> Iterator[PromptRow]:
    """One row for each source prompt and one for each variant of it, in suite order; of a conversation
    that is played one for each turn, of a variant from the turn on that it changes.

    ``perturbations`` maps names to definitions, as in params.yaml. A variant's text depends on (seed,
    suite, id, perturbation) alone, never on its neighbours. Its ``seed`` is None unless its text was
    drawn, so that another seed changes no other row. ``as_sent`` makes an attempt of a row, its
    features' texts and the template; ``tools`` are those of rows that have none. Raises
    :class:`SuiteError` for a row whose id is that of another row's variant, and :class:`ParamsError` for
    a definition that cannot be used."""
    kinds = {name: read_perturbation(name, given) for name, given in (perturbations or {}).items()}
    taken = {row["id"] for row in rows}
    for row in rows:
        played = played_turns(row)
        clean: PromptRow = {
            **given_prompt(row["id"], as_sent(row, features_of(row), template)),
            "suite": suite,
            "category": row["category"],
        }
        if given := row.get("tools", tools):
            clean["tools"] = list(given)
            if problems := call_problems({**row, "tools": given}):
                raise SuiteError(f"suite {suite}: row {row['id']!r}: {problems[0]}")
        made = [_turns(clean, played, 1)]
        for name, (kind, settings) in kinds.items():
            if (place := changed_at(row, settings)) is None:
                continue
            turn, until, after = place
            changed = {"turn": turn} if after else {}
            features, key = features_of(until), RowKey(seed, suite, row["id"], name)
            for variant in kind.variants(features, settings, key):
                attempts = [as_sent(until, texts, template) for texts in variant.attempts]
                whole: PromptRow = {
                    **clean,
                    "prompt_id": f"{row['id']}/{name}/{variant.label}",
                    "perturbation": {"name": name, **variant.perturbation, **changed},
                    "attempts": [[*x, *after] for x in attempts] if after else attempts,
                    "seed": seed if kind.drawn else None,
                }
                made.append(_turns(whole, played, turn))
        for prompt in itertools.chain(*made):
            if (id_ := prompt["prompt_id"]) in taken and id_ != row["id"]:
                what = "variant" if prompt["perturbation"] else "turn"
                raise SuiteError(
                    f"suite {suite}: the id {id_!r} is that of a {what} of {row['id']!r}; give the row "
                    "another id"
                )
            yield prompt


def _turns(whole: PromptRow, played: Sequence[int], first: int) -> Iterator[PromptRow]:
    """The rows of those turns of a prompt that the model answers, from the one on that is its own; the
    prompt itself where only the last is answered."""
    if not played:
        yield whole
        return
    before = None
    for turn in played:
        base = whole["prompt_id"] if turn >= first else whole["source_id"]
        id_ = turn_id(base, turn, played[-1])
        if turn >= first:
            attempts: list[Attempt] = [_up_to(turn, attempt) for attempt in whole["attempts"]]
            of_turn: PromptRow = {**whole, "prompt_id": id_, "attempts": attempts}
            of_turn |= {"turn": turn, "turns": played[-1]}
            yield of_turn if before is None else {**of_turn, "after": before}
        before = id_


def _up_to(turn: int, attempt: Attempt) -> list[Message]:
    """A conversation up to a turn of the user's, with places for the model's own answers."""
    messages: list[Message] = []
    for message in attempt:
        assert not isinstance(message, str)  # only conversations are played
        if message["role"] == "user":
            if messages and messages[-1]["role"] == "user":
                messages.append(OWN_ANSWER)
            turn -= 1
        messages.append(message)
        if not turn:
            break
    return messages


class SuitePrompts(NamedTuple):
    """The prompt rows of one suite: its label, how many source prompts were drawn, the rows; how often
    each is answered, and the settings of generation that its protocol states, where it says so."""

    label: str
    sources: int
    rows: list[PromptRow]
    samples: int | None
    generation: dict[str, Any] | None


def suite_prompts(params: Mapping[str, Any], name: str, root: Path = Path()) -> SuitePrompts:
    """What params.yaml makes of the suite ``name``, whose file is found from ``root``. Raises
    :class:`SuiteError` and :class:`ParamsError`."""
    seed, suite = run_seed(params), definition(params, "suites", name)
    rows, size = load_suite(root / suite["file"]), suite.get("sample")
    wanted = suite.get("perturbations") or []
    perturbations = {kind: definition(params, "perturbations", kind) for kind in wanted}
    sampled = sample_rows(rows, size, seed=seed, suite=name)
    variants = list(
        prompt_rows(
            sampled, name, seed, perturbations, suite.get("template"), tools=suite.get("tools")
        )
    )
    label, samples, fixed = suite_label(name, size, len(rows), seed), suite.get("samples"), None
    if suite.get("protocol"):
        from refract.suites.protocols import find_part

        chosen = find_part(suite["protocol"], f"suites.{name}: protocol")
        samples, fixed = samples or chosen.generation.samples, chosen.fixed()
    return SuitePrompts(label, len(sampled), variants, samples, fixed)
