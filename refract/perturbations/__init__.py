"""generate-perturbations: suite rows in, prompt rows out, one for each variant of each prompt."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from refract.params import definition, run_seed
from refract.perturbations.kinds import KINDS, SEEDED, check_definition
from refract.rows.jsonl import Row
from refract.rows.suites import SuiteError, load_suite, sample_rows, suite_label

VARIABLE = re.compile(r"\{(\w+)\}")


def features_of(row: Row) -> dict[str, str]:
    """The texts of a suite row that can be perturbed, by name.

    A plain prompt is one feature, ``prompt``; of a conversation it is the last user message.
    """
    if "features" in row:
        return dict(row["features"])
    if "messages" in row:
        return {"prompt": row["messages"][-1]["content"]}
    return {"prompt": row["prompt"]}


def render(row: Row, features: Mapping[str, str], template: str | None) -> str | list[Row]:
    """What the model is sent for a row whose features have these texts: a text or messages.

    A row of features fills the suite's ``template``, where ``{name}`` stands for a feature. The
    filled-in text is not searched again. Raises :class:`SuiteError` for a name without a feature.
    """
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


def _prompt_row(
    row: Row,
    suite: str,
    attempts: list[str | list[Row]],
    label: str = "",
    perturbation: Row | None = None,
    seed: int | None = None,
) -> Row:
    return {
        "prompt_id": f"{row['id']}/{label}" if label else row["id"],
        "source_id": row["id"],
        "suite": suite,
        "category": row["category"],
        "perturbation": perturbation,
        "attempts": attempts,
        "seed": seed,
    }


def prompt_rows(
    rows: Sequence[Row],
    suite: str,
    seed: int,
    perturbations: Mapping[str, Mapping[str, Any]] | None = None,
    template: str | None = None,
    as_sent: Callable[[Row, Mapping[str, str], str | None], Any] = render,
) -> Iterator[Row]:
    """One row for each source prompt and one for each variant of it, in suite order.

    ``perturbations`` maps names to definitions (see :mod:`refract.perturbations.kinds`).
    A variant's text depends on (seed, suite, id, perturbation) alone, never on its neighbours. Its
    ``seed`` is None unless its text was drawn, so that another seed changes no other row. ``as_sent``
    makes an attempt of a row, its features' texts and the template. Raises
    :class:`SuiteError` for a row whose id is that of another row's variant.
    """
    taken = {row["id"] for row in rows}
    for row in rows:
        features = features_of(row)
        yield _prompt_row(row, suite, [as_sent(row, features, template)])
        for name, wanted in (perturbations or {}).items():
            for made in KINDS[wanted["kind"]](features, wanted, seed, suite, row["id"], name):
                variant = _prompt_row(
                    row,
                    suite,
                    [as_sent(row, texts, template) for texts in made.attempts],
                    f"{name}/{made.label}",
                    {"name": name, **made.perturbation},
                    seed if wanted["kind"] in SEEDED else None,
                )
                if variant["prompt_id"] in taken:
                    raise SuiteError(
                        f"suite {suite}: the id {variant['prompt_id']!r} is that of a variant of "
                        f"{row['id']!r}; give the row another id"
                    )
                yield variant


class SuitePrompts(NamedTuple):
    """The prompt rows of one suite: its label, how many source prompts were drawn, the rows."""

    label: str
    sources: int
    rows: list[Row]


def suite_prompts(params: Mapping[str, Any], name: str, root: Path = Path()) -> SuitePrompts:
    """What params.yaml makes of the suite ``name``, whose file is found from ``root``.

    Raises :class:`SuiteError`, :class:`refract.params.ParamsError`, and ValueError for a
    perturbation whose definition cannot be used.
    """
    seed = run_seed(params)
    suite = definition(params, "suites", name)
    rows = load_suite(root / suite["file"])
    size = suite.get("sample")
    perturbations = {}
    for wanted in suite.get("perturbations") or []:
        perturbations[wanted] = definition(params, "perturbations", wanted)
        check_definition(wanted, perturbations[wanted])
    sampled = sample_rows(rows, size, seed=seed, suite=name)
    variants = list(prompt_rows(sampled, name, seed, perturbations, suite.get("template")))
    return SuitePrompts(suite_label(name, size, len(rows), seed), len(sampled), variants)
