"""The page that people look at: one HTML file that needs no network and runs no text of a model's.

Texts enter it as JSON data alone, in which no ``<`` occurs, and its script draws them as text nodes.
A Content-Security-Policy that names the hashes of its one script and one style sheet keeps anything
else from running.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from refract.core.showing import printable
from refract.core.types import Row
from refract.core.vocabulary import JUDGED, REFUSED
from refract.rates.rate import Rate
from refract.report.drawing import Figure, inline_svg
from refract.report.markdown import TEMPLATES, environment
from refract.report.moves import Commit, Moves
from refract.report.page_data import LONGEST, MOST, PageData
from refract.report.sections import table_estimate
from refract.report.view import (
    CATEGORY_OF,
    HEADLINES,
    View,
    model_notes,
    summaries,
    unmet,
    warnings,
)
from refract.report.wording import MISSING, WARN_SHARE, rate_parts
from refract.results.differences import answered_by, judged_by

NOTES = 6  # of what differs from the earlier numbers; the rest is counted
DATA = '<script id="data" type="application/json">'  # of the template; the answers follow it


@dataclass(frozen=True)
class History:
    """What a page says beyond the numbers: the commit that is checked out, and whether the tree differs
    from it; what moved since earlier numbers; and what made each model's results."""

    commit: tuple[Commit, bool] | None = None
    moves: Moves | None = None
    ran: Mapping[str, Row] | None = None


def page_parts(
    view: View, data: PageData, figures: Sequence[Figure], history: History = History()
) -> Iterable[bytes]:
    """The whole page, UTF-8, in parts: all is computed but ``data`` as JSON, which is made as it is
    written."""
    names = ("texts.js", "page.js", "page.css")
    texts, script, style = ((TEMPLATES / name).read_text("utf-8") for name in names)
    script = texts + script
    moves, lines = history.moves, summaries(view)
    text = (
        environment(view.titles, markdown=False)
        .get_template("page.html.j2")
        .render(
            policy=(
                f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
                "base-uri 'none'; form-action 'none'"
            ),
            script=script,
            style=style,
            view=view,
            suites={
                suite: [line for line in lines if line.suite == suite]
                for suite in dict.fromkeys(line.suite for line in lines)
            },
            limited=[rate for line in lines for rate in line.limited],
            unmet=unmet(lines),
            warnings=warnings(view),
            model_notes=model_notes(view),
            judge_gaps=judge_gaps(view),
            kappas={
                row["judge"]: row
                for row in view.agreement
                if row["measure"] == "kappa" and row["low"]
            },
            figures=[(figure, inline_svg(figure), numbers_table(figure)) for figure in figures],
            history=history,
            moves=moves,
            reach=max((abs(end) for row in moves.rows for end in row.interval or ()), default=1.0)
            or 1.0
            if moves
            else 1.0,
            notes=[printable(note) for note in moves.notes] if moves else [],
            machines=machine_rows(history.ran or {}),
            data=data,
            refused=" ".join(REFUSED),
            judged=" ".join(JUDGED),
            rate_parts=rate_parts,
            without_cut_off=lambda rate: without_cut_off(view, rate),
            answers_link=lambda model, label, **filters: answers_link(
                view, model, label, **filters
            ),
            table_estimate=table_estimate,
            CATEGORY_OF=CATEGORY_OF,
            HEADLINES=HEADLINES,
            LONGEST=LONGEST,
            MISSING=MISSING,
            MOST=MOST // 1_000_000,
            NOTES=NOTES,
        )
    )
    # Names and texts are escaped, so that the template alone can have written this.
    before, start, after = text.partition(DATA)
    return [(before + start).encode(), data.json(), after.encode()]


def _hash(source: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}"


def answers_link(view: View, model: str, label: str, **filters: str) -> str:
    """A link that filters the page's answers, to those of clean prompts of a model and a suite."""
    # The answers are under the suite's name, rates under its label.
    suites = view.provenance.get(model, {}).get("suites", {})
    suite = next((name for name, facts in suites.items() if facts["label"] == label), label)
    names = {"model": view.titles.model(model), "suite": view.titles.suite(suite)}
    wanted = names | filters | {"perturbation": "none"}
    return f"#filter?{urlencode(wanted, quote_via=quote, errors='surrogatepass')}"


def without_cut_off(view: View, rate: Rate) -> Rate | None:
    """A rate without the answers that were cut off, where those were many."""
    if rate.counts.cut_off_share < WARN_SHARE:
        return None
    same = (r for r in view.rates[rate.model] if (r.suite, r.measure) == (rate.suite, rate.measure))
    return next((r for r in same if r.group.field == "cut_off"), None)


def judge_gaps(view: View) -> dict[str, list[float]]:
    """How far each judge that decides is from people on the models nearest to those here: their rate
    gaps in points, the lowest first."""
    gaps: dict[str, list[float]] = {}
    for judge in view.deciding_judges:
        entries = {e for near in view.near.values() if near.judge == judge for e in near.entries}
        if points := sorted(100 * entry.gap for entry in entries if entry.gap is not None):
            gaps[judge] = points
    return gaps


def numbers_table(figure: Figure) -> dict[str, Any]:
    """A figure's rows: those that share the first column under one heading."""
    first, *columns = figure.rows[0]
    columns.sort(key="measure".__eq__)  # long, and known from the figure: behind the numbers
    groups: dict[str, list[list[Any]]] = {}
    for row in figure.rows:
        cells = ["" if row[column] is None else row[column] for column in columns]
        groups.setdefault(str(row[first]), []).append(cells)
    return {"columns": columns, "groups": groups}


def machine_rows(ran: Mapping[str, Row]) -> list[dict[str, str]]:
    """What generated and what judged, one row for models that have it in common."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for model, facts in ran.items():
        unknown = not facts.get("runs") or any(
            place is None
            for suite in facts.get("suites", {}).values()
            for place, _ in suite["runs"]
        )
        for what, used in (("answers", answered_by(facts)), ("verdicts", judged_by(facts))):
            machines = [_machine(run) for run in used]
            if not machines or (what == "answers" and unknown):
                machines.append(("not recorded", "", ""))
            for machine in dict.fromkeys(machines):
                rows.setdefault((what, *machine), []).append(model)
    columns = ("what", "device", "processor", "versions")
    return [
        dict(zip(columns, row, strict=True)) | {"models": ", ".join(rows[row])}
        for row in sorted(rows, key=lambda row: row[0])
    ]


def _machine(used: Mapping[str, Any]) -> tuple[str, str, str]:
    libraries = [
        f"{name.removeprefix('library ')} {version}"
        for name, version in used.items()
        if name.startswith("library ")
    ]
    device = " ".join(str(used[key]) for key in ("device", "accelerator") if used.get(key))
    return (
        device or ("CPU" if libraries else MISSING),
        str(used.get("processor") or MISSING),
        ", ".join([f"Python {used['python']}", *libraries]),
    )
