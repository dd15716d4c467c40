"""Perturbations: suite rows in, prompt rows out, one for each variant of each prompt.

A new kind is a function and its Perturbation, named in ``PERTURBATIONS``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from refract.core.errors import ParamsError
from refract.core.params import definition, run_seed
from refract.core.played import played
from refract.core.registry import Registry, find
from refract.core.settings import Settings, read_settings
from refract.core.types import Attempt, PromptRow, Row, given_prompt
from refract.suites.draws import Draw, sample_rows
from refract.suites.perturbations.variants import Perturbation, RowKey
from refract.suites.rows import SuiteError, is_played, load_suite

_HERE = "refract.suites.perturbations"
PERTURBATIONS = Registry(
    {
        "char_injection": f"{_HERE}.characters:CHAR_INJECTION",
        "upper": f"{_HERE}.noise:UPPER",
        "lower": f"{_HERE}.noise:LOWER",
        "title": f"{_HERE}.noise:TITLE",
        "typos": f"{_HERE}.noise:TYPOS",
        "punctuation": f"{_HERE}.noise:PUNCTUATION",
        "homoglyphs": f"{_HERE}.noise:HOMOGLYPHS",
        "leetspeak": f"{_HERE}.attacks:LEETSPEAK",
        "encode": f"{_HERE}.attacks:ENCODE",
        "frame": f"{_HERE}.attacks:FRAME",
        "repeat": f"{_HERE}.noise:REPEAT",
        "swap": f"{_HERE}.swaps:SWAP",
    },
    "refract.perturbations",
    "Settings",
    "variants",
)

VARIABLE = re.compile(r"\{(\w+)\}")


def read_perturbation(name: str, entry: object) -> tuple[Perturbation[Any], Settings]:
    """The kind of perturbation that a definition names, and its settings.
    Raises ParamsError for a definition that cannot be used."""
    where = f"perturbations.{name}"
    if not isinstance(entry, Mapping):
        raise ParamsError(f"{where} must map settings to values (got {entry!r:.80})")
    kind: Perturbation[Any] = find(PERTURBATIONS, entry.get("kind"), f"{where}: kind")
    settings = {key: value for key, value in entry.items() if key != "kind"}
    return kind, read_settings(kind.Settings, where, settings)


def features_of(row: Row) -> dict[str, str]:
    """The texts of a suite row that can be perturbed, by name: ``prompt`` for a plain
    prompt, or for the last message of a conversation."""
    if "features" in row:
        return dict(row["features"])
    if "messages" in row:
        return {"prompt": row["messages"][-1]["content"]}
    return {"prompt": row["prompt"]}


def render(row: Row, features: Mapping[str, str], template: str | None) -> Attempt:
    """The text or messages that the model is sent for a row whose features have these texts.

    A row of features fills the suite's ``template``, where ``{name}`` stands for a feature; the
    text filled in is not searched again. Raises SuiteError for a name without a feature."""
    if "features" in row:
        if not template:
            example = " ".join(f"{{{name}}}" for name in row["features"])
            raise SuiteError(
                f"row {row['id']!r} has features; its suite's definition needs a template such as "
                f"'{example}'"
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


def check_template(template: str | None, rows: Sequence[Row], suite: str) -> None:
    """Raises SuiteError for a template that no row of a suite fills."""
    if template and not any("features" in row for row in rows):
        raise SuiteError(
            f"suite {suite}: no row has features for its template; write rows as "
            '{"features": {"question": "…"}}, or leave the template out'
        )


class OneTurn:
    """The prompts of a row of which the model answers the last turn alone."""

    def __init__(self, row: Row) -> None:
        self.row = row

    def prompts(self, prompt: PromptRow) -> Iterable[PromptRow]:
        """A row for each turn that is answered of the clean prompt, or of a variant."""
        return [prompt]


def prompt_rows(
    rows: Sequence[Row],
    suite: str,
    seed: int,
    perturbations: Mapping[str, Mapping[str, Any]] | None = None,
    template: str | None = None,
    tools: Sequence[Row] | None = None,
) -> Iterator[PromptRow]:
    """One row for each source prompt and one for each variant of it, in suite order. A conversation
    that is played has a row for each turn; a variant changes its last one. What asks as the clean
    prompt does, to the letter, is no variant, unless it is a repeat of it.

    ``perturbations`` maps names to definitions, as in params.yaml. A variant's text depends on
    (seed, suite, id, perturbation) alone; its ``seed`` is None unless the text was drawn, so that
    another seed changes no other row. ``tools`` are for rows that have none. Raises SuiteError for
    a row with the id of another row's variant, and ParamsError for a definition that cannot be
    used."""
    kinds = {name: read_perturbation(name, entry) for name, entry in (perturbations or {}).items()}
    taken = {row["id"] for row in rows}
    for source in rows:
        turns = OneTurn(source)
        if tools or is_played(source):
            turns = played("prompts")(source, tools, f"suite {suite}")
        row = turns.row
        clean: PromptRow = {
            **given_prompt(row["id"], render(row, features_of(row), template)),
            "suite": suite,
            "category": row["category"],
        }
        prompts = list(turns.prompts(clean))
        for name, (kind, settings) in kinds.items():
            key = RowKey(seed=seed, suite=suite, source_id=row["id"], name=name)
            asks = {} if kind.same_request else {"same_request": False}
            for variant in kind.variants(features_of(row), settings, key):
                attempts = [render(row, texts, template) for texts in variant.attempts]
                # The template may lack the feature that is changed.
                if attempts[0] == clean["attempts"][0] and not kind.repeats:
                    continue
                whole: PromptRow = {
                    **clean,
                    "prompt_id": f"{row['id']}/{name}/{variant.label}",
                    "perturbation": {"name": name, **variant.perturbation, **asks},
                    "attempts": attempts,
                    "seed": seed if kind.drawn else None,
                }
                prompts += turns.prompts(whole)
        for prompt in prompts:
            id_ = prompt["prompt_id"]
            if id_ in taken and id_ != row["id"]:
                part = "variant" if prompt["perturbation"] else "turn"
                raise SuiteError(
                    f"suite {suite}: the id {id_!r} is that of a {part} of {row['id']!r}; give the "
                    "row another id"
                )
            yield prompt


class SuitePrompts(NamedTuple):
    """The prompt rows of one suite: how it was drawn, the number of source prompts drawn,
    the rows, and how often each is answered where that is stated."""

    draw: Draw
    sources: int
    rows: list[PromptRow]
    samples: int | None


def suite_prompts(params: Mapping[str, Any], name: str, root: Path = Path()) -> SuitePrompts:
    """The prompts of the suite ``name`` as params.yaml defines it; its file is found from ``root``.
    Raises SuiteError and ParamsError."""
    seed = run_seed(params)
    suite = definition(params, "suites", name)
    rows = load_suite(root / suite["file"])
    check_template(suite.get("template"), rows, name)
    size = suite.get("sample")
    stratified = bool(suite.get("stratified"))
    sampled = sample_rows(rows, size, seed=seed, suite=name, stratified=stratified)
    kinds = suite.get("perturbations") or []
    prompts = prompt_rows(
        sampled,
        suite=name,
        seed=seed,
        perturbations={kind: definition(params, "perturbations", kind) for kind in kinds},
        template=suite.get("template"),
        tools=suite.get("tools"),
    )
    draw = Draw(asked=size, total=len(rows), seed=seed)
    return SuitePrompts(draw, len(sampled), rows=list(prompts), samples=suite.get("samples"))
