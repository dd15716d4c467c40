"""The page that people look at: one HTML file that needs no network and runs no text of a model's.

Texts enter it as JSON data alone, in which no ``<`` occurs, and its script draws them as text nodes.
A Content-Security-Policy that names the hashes of its one script and one style sheet keeps anything
else from running.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from html import unescape
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from refract.core.progress import (
    ran_file,
    read_object,
)
from refract.core.showing import printable
from refract.core.types import Row
from refract.core.vocabulary import (
    JUDGED,
    REFUSED,
)
from refract.report.answers import LONGEST, MOST, PageData
from refract.report.charts import STYLE, Figure, bar, difference_bar, svg
from refract.report.gaps import Near, nearest
from refract.report.inputs import Inputs
from refract.report.markdown import LOUD, MISSING, cut_off_share, percent, shown_rate
from refract.report.moves import Commit, Moves, biggest_moves, commit_now
from refract.report.sections import cut_off_notes, error_notes
from refract.report.state import page_mark
from refract.report.summary import (
    CATEGORY_OF,
    HEADLINES,
    Summary,
    limit_decision,
    model_notes,
    summaries,
)
from refract.report.titles import Titles
from refract.results.differences import answered_by, judged_by
from refract.results.tables import Table

NOTES = 6  # of what differs from the earlier numbers; the rest is counted
TEMPLATES = Path(__file__).parent / "templates"
DATA = '<script id="data" type="application/json">'  # of the template; the answers follow it


def rate_cell(row: Mapping[str, str] | None) -> dict[str, str]:
    """A rate as the main table shows it: the drawing and the numbers."""
    if row is None or not row["rate"]:
        return {"bar": "", "rate": MISSING, "interval": "", "detail": "0/0" if row else ""}
    rate, rest = shown_rate(row).split(" ", 1)
    end = (
        rest.index("]" if rest.startswith("[") else ")") + 1
    )  # of the interval, or "(no interval)"
    return {"bar": bar(row), "rate": rate, "interval": rest[:end], "detail": rest[end + 1 :]}


def main_table(tables: Mapping[str, Table], provenance: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One line for each suite and model: rates by category, what was left out, and passes."""
    lines = []
    for line in summaries(tables):
        # The rows of the answers are under the suite's name, those of the tables under its label.
        held = provenance.get(line.model, {}).get("suites", {})
        suite = next((name for name, one in held.items() if one["label"] == line.suite), line.suite)
        cells = []
        for (measure, _), row in zip(HEADLINES, line.rates, strict=True):
            category = {"model": line.model, "suite": suite, "category": CATEGORY_OF[measure]}
            refused = int(row["successes"] or 0) if row else 0
            cells.append(
                rate_cell(row)
                | {
                    "without": _without_cut_off(tables[line.model], line.suite, row),
                    "link": answers_link(**category, **({"outcome": "refused"} if refused else {})),
                    "shows": f"Show the {refused} refused" if refused else "Show all, none refused",
                }
            )
        lines.append(
            line._asdict()
            | {
                "rates": cells,
                "decision": line.decision,
                "link": answers_link(model=line.model, suite=suite),
                "not_judged": answers_link(model=line.model, suite=suite, outcome="not judged"),
                "unmet": [
                    {
                        "measure": limit["measure"],
                        "rate": rate_cell(limit)["rate"] if limit["rate"] else "not measured",
                        "threshold": limit["threshold"],
                    }
                    for limit in line.limits
                    if limit_decision(limit) != "met"
                ],
            }
        )
    return lines


def answers_link(**filters: str) -> str:
    """A link that filters the page's answers, to those of clean prompts."""
    wanted = filters | {"perturbation": "none"}
    return f"#filter?{urlencode(wanted, quote_via=quote, errors='surrogatepass')}"


def _without_cut_off(table: Table, suite: str, row: Mapping[str, str] | None) -> str:
    """A rate without the answers that were cut off, where those were many; else nothing."""
    if row is None or cut_off_share(row) < LOUD:
        return ""
    wanted = (suite, row["measure"], "cut_off")
    found = (one for one in table if (one["suite"], one["measure"], one["field"]) == wanted)
    return next((shown_rate(one) for one in found), "")


def missed_limits(lines: Sequence[Summary]) -> list[dict[str, str]]:
    """The thresholds that are not met, missed ones first, each with all that limits its rate."""
    failed = [
        {
            "where": f"{line.suite}, {line.model}",
            "measure": row["measure"],
            "rate": shown_rate(row) if row["rate"] else "not measured",
            "threshold": row["threshold"],
            "decision": decision,
        }
        for line in lines
        for row in line.limits
        if (decision := limit_decision(row)) != "met"
    ]
    return sorted(failed, key=lambda row: row["decision"] != "missed")


class Notice(NamedTuple):
    """A warning in texts: what stands in bold, the rest, and the lines of its list."""

    title: str
    text: str
    lines: list[str]


def notices(tables: Mapping[str, Table]) -> list[Notice]:
    """The report's warnings, which are Markdown; a list belongs to the one before it."""
    found: list[Notice] = []
    for note in (*error_notes(tables), *cut_off_notes(tables)):
        _, bold, rest = note.split("**", 2) if note.startswith("**") else ("", "", note)
        head = [line for line in rest.split("\n") if not line.startswith("- ")]
        lines = [_unmarked(line[2:]) for line in rest.split("\n") if line.startswith("- ")]
        if not bold and not any(head) and found:
            found[-1].lines.extend(lines)
        else:
            found.append(Notice(_unmarked(bold), _unmarked(" ".join(head)), lines))
    return found


def _unmarked(markdown: str) -> str:
    """A text of the report without what Markdown marks it with."""
    links = re.sub(r"(?<!\\)\[(.*?)(?<!\\)\]\([^)]*\)", r"\1", markdown)
    return unescape(re.sub(r"\\([\\|`\[\]*~$])|[`*]", lambda mark: mark[1] or "", links))


def judge_sentences(
    near: Mapping[tuple[str, str], Near], agreement: Table, judges: Sequence[str]
) -> list[str]:
    """How far each judge that decides is from people, in a sentence or two."""
    found = []
    kappas = {row["judge"]: row for row in agreement if row["measure"] == "kappa" and row["low"]}
    for judge in judges:
        entries = {e for held in near.values() if held.judge == judge for e in held.entries}
        if gaps := sorted(100 * e.gap for e in entries if e.gap is not None):
            low, high = (
                f"{abs(gap):.1f} points {'more' if gap > 0 else 'fewer'}"
                for gap in (gaps[0], gaps[-1])
            )
            found.append(
                f"The judge {judge} found from {low} to {high} refusals than people did, on published "
                f"answers of the {len(gaps)} models with the nearest shares. Judge’s gap is that of the "
                "three nearest to a row, in points: with +, the judge finds more and the true share may "
                "be that much lower; with −, higher. A warning and no correction."
            )
        if row := kappas.get(judge):
            value, low, high = (f"{float(row[key]):.3f}" for key in ("value", "low", "high"))
            found.append(
                f"On the project’s own {row['n']} labelled pairs, most of them written to mislead a "
                f"judge, {judge} agrees with the labels at κ {value} [{low}, {high}]."
            )
    return found


def numbers_table(figure: Figure) -> dict[str, Any]:
    """A figure's rows: those that share the first column under one heading."""
    first, *columns = figure.rows[0]
    columns.sort(key="measure".__eq__)  # long, and known from the figure: behind the numbers
    groups: dict[str, list[list[Any]]] = {}
    for row in figure.rows:
        groups.setdefault(str(row[first]), []).append([row[column] for column in columns])
    return {"columns": columns, "groups": groups}


def machine_rows(ran: Mapping[str, Row]) -> list[dict[str, str]]:
    """What generated and what judged, one row for models that have it in common."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for model, held in ran.items():
        unknown = not held.get("runs") or any(
            place is None for suite in held.get("suites", {}).values() for place, _ in suite["runs"]
        )
        for what, used in (("answers", answered_by(held)), ("verdicts", judged_by(held))):
            found = [_machine(one) for one in used]
            if not found or (what == "answers" and unknown):
                found.append(("not recorded", "", ""))
            for one in dict.fromkeys(found):
                rows.setdefault((what, *one), []).append(model)
    order = sorted(rows, key=lambda row: row[0])
    return [
        dict(zip(("what", "device", "processor", "versions"), row, strict=True))
        | {"models": ", ".join(rows[row])}
        for row in order
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


def move_lines(
    moves: Moves, titles: Titles | None = None, confidence: float = 0.95
) -> list[dict[str, Any]]:
    """The biggest moves as the page shows them, their bars on one scale."""
    ends = [abs(row[key]) for row in moves.rows for key in ("low", "high") if row[key] is not None]
    reach = max(ends, default=1.0) or 1.0
    called = titles or Titles({}, {})
    lines = []
    for row in moves.rows:
        numbers = row["low"], row["difference"], row["high"]
        known = row["low"] is not None
        parts = (called.suite(row["suite"]), row["category"], row["perturbation"])
        lines.append(
            {
                "where": ", ".join(part for part in parts if part),
                "model": called.models.get(row["model"], row["model"]),
                "rates": f"{row['rate_a']:.3f} → {row['rate_b']:.3f}",
                "bar": difference_bar(*numbers, reach) if known else "",
                "difference": f"{row['difference']:+.3f}",
                "interval": f"[{row['low']:+.3f}, {row['high']:+.3f}]" if known else "",
                "flips": f"{len(row['to_refusal'])} / {len(row['to_compliance'])}",
                "n": row["n"],
                "p": MISSING if row["p_holm"] is None else f"{row['p_holm']:.2g}",
                "sure": row["p_holm"] is not None and row["p_holm"] <= 1 - confidence,
            }
        )
    return lines


def render_page(
    root: Path, inputs: Inputs, figures: Sequence[Figure], data: PageData
) -> Iterable[bytes]:
    """The page of a project's results in parts, the last of which says of which numbers it is.

    It depends on ``data``, the tree and git's history of it.
    """
    page = page_parts(
        inputs.tables,
        inputs.provenance,
        data,
        figures,
        commit=commit_now(root),
        moves=biggest_moves(root),
        titles=inputs.titles,
        near=nearest(inputs.tables, inputs.provenance, inputs.entries),
        agreement=inputs.agreement,
        ran={
            inputs.titles.models[model]: read_object(root / ran_file(model))
            for model in inputs.models
        },
        confidence=inputs.confidence,
    )
    return chain(page, [page_mark(root, inputs.models)])


def page_parts(
    tables: Mapping[str, Table],
    provenance: Mapping[str, Any],
    data: PageData,
    figures: Sequence[Figure],
    *,
    commit: tuple[Commit, bool] | None = None,
    moves: Moves | None = None,
    titles: Titles | None = None,
    near: Mapping[tuple[str, str], Near] | None = None,
    agreement: Table = (),
    ran: Mapping[str, Row] | None = None,
    confidence: float = 0.95,
) -> Iterable[bytes]:
    """The whole page, UTF-8, in parts: all is computed but ``data`` as JSON, which is made as it is
    written.

    ``data`` is what :func:`page_data` gives; ``commit`` is what is checked out, and whether the tree
    differs from it; ``moves`` are the differences to earlier numbers, by names that ``titles`` has
    display names for; ``near`` is what is known of the judge by suite and model, ``agreement`` that on
    the project's own pairs; ``ran`` is what made each model's results; ``confidence`` is that of all
    intervals.
    """
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    texts, script, style = (
        (TEMPLATES / name).read_text("utf-8") for name in ("texts.js", "page.js", "page.css")
    )
    script = texts + script
    style += STYLE
    lines = main_table(tables, provenance)
    gaps = {key: held.gaps for key, held in (near or {}).items()}
    judges = {name: kind for found in provenance.values() for name, kind in found["judges"].items()}
    deciding = {
        held["judges"][0]: None
        for found in provenance.values()
        for held in found["suites"].values()
    }
    suites = {
        held["label"]: held for found in provenance.values() for held in found["suites"].values()
    }
    text = environment.get_template("page.html.j2").render(
        policy=(
            f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
            "base-uri 'none'; form-action 'none'"
        ),
        script=script,
        style=style,
        headlines=[label for _, label in HEADLINES],
        by_suite={
            suite: [line for line in lines if line["suite"] == suite]
            for suite in dict.fromkeys(line["suite"] for line in lines)
        },
        limits_of={
            suite: list(
                dict.fromkeys(
                    f"{row['measure']} {row['threshold']}"
                    for line in lines
                    for row in line["limits"]
                    if line["suite"] == suite
                )
            )
            for suite in dict.fromkeys(line["suite"] for line in lines)
        },
        failed=missed_limits(summaries(tables)),
        limits=sum(len(line["limits"]) for line in lines),
        figures=[
            (figure, svg(figure), svg(figure, narrow=True), numbers_table(figure))
            for figure in figures
        ],
        gaps=gaps,
        commit=commit,
        moves=moves,
        level=percent(confidence),
        limit=f"{1 - confidence:.2g}",
        moved=move_lines(moves, titles, confidence) if moves else [],
        differs=[printable(note) for note in moves.notes[:NOTES]] if moves else [],
        more=max(0, len(moves.notes) - NOTES) if moves else 0,
        models=list(provenance),
        provenance=provenance,
        judges=judges,
        suites=suites,
        notices=notices(tables),
        notes=model_notes(provenance, tables),
        judged_by=judge_sentences(near or {}, agreement, list(deciding)),
        machines=machine_rows(ran or {}),
        outcomes={"refused": " ".join(REFUSED), "judged": " ".join(JUDGED)},
        answered=len(data.columns["id"]),
        cut=data.texts.cut,
        longest=data.texts.longest,
        most=MOST // 1_000_000 if data.texts.longest < LONGEST else None,
    )
    # Names and texts are escaped, so that the template alone can have written this.
    before, start, after = text.partition(DATA)
    return chain([(before + start).encode()], data.json(), [after.encode()])


def _hash(source: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}"
