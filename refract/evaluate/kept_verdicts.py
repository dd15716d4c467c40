"""Kept verdicts of a project, judged again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

from refract.core.jsonl import iter_rows, stored_rows
from refract.core.params import definition, grid
from refract.judges import case_of, case_read_by, is_read, open_judges
from refract.judges.kept import verdict_keys
from refract.models.store import ResponseStore
from refract.project import Project
from refract.results.current import ROWS
from refract.suites.draws import in_drawn_order


class JudgedAgain(NamedTuple):
    """How many kept verdicts of one judge on the answers of one model to one suite were
    judged again, and the prompts whose verdict came out differently."""

    model: str
    suite: str
    judge: str
    judged: int
    different: list[str]


def judge_again(
    project: Project, store: ResponseStore, size: int, seed: int
) -> Iterator[JudgedAgain]:
    """Judges a seeded sample of each model's answers to each suite of the grid again, as
    far as their verdicts are kept.

    ``size`` answers are drawn of each. Raises :class:`refract.core.errors.RefractError`
    for rows that are missing or cannot be read."""
    params = project.params
    for suite in grid(params, "suites"):
        wanted = definition(params, "suites", suite)
        sources = {row["id"]: row for row in iter_rows(project.folder / wanted["file"])}
        judges = open_judges(
            {name: definition(params, "judges", name) for name in wanted["judges"]}
        )
        for model in grid(params, "models"):
            paths = {kind: path.format(model=model, suite=suite) for kind, path in ROWS.items()}
            rows = stored_rows(
                project.folder / paths["prompts"], project.folder / paths["responses"]
            )
            cases = []
            for id_ in in_drawn_order(rows.prompts, seed, suite, model, "judged again")[:size]:
                prompt = rows.prompts[id_]
                cases.append(case_of(prompt, rows.prompts, rows.responses, sources=sources))
            for name, judge in judges.items():
                read = [case_read_by(judge, case) for case in cases]
                judged = [case for case in read if is_read(judge, case)]
                keys = verdict_keys(judge, judged) or []
                answers = store.get(keys)
                kept = [place for place, key in enumerate(keys) if key in answers]
                verdicts = judge.judge([judged[place] for place in kept]) if kept else []
                different = []
                for place, verdict in zip(kept, verdicts, strict=True):
                    if json.loads(answers[keys[place]].response) != verdict:
                        different.append(judged[place].prompt["prompt_id"])
                yield JudgedAgain(model, suite, name, judged=len(kept), different=different)
