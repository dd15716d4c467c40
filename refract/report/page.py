"""The page that people look at: one HTML file that needs no network and runs no text of a model's.

Texts enter it as JSON data alone, in which no ``<`` occurs, and its script draws them as text nodes.
A Content-Security-Policy that names the hashes of its one script and one style sheet keeps anything
else from running.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

from refract.report import (
    CATEGORY_OF,
    HEADLINES,
    MISSING,
    Table,
    excluded_counts,
    model_notes,
    shown_rate,
)
from refract.report.charts import STYLE, Figure, bar, difference_bar, svg
from refract.report.inputs import Inputs
from refract.report.moves import Commit, Moves, biggest_moves, commit_now
from refract.rows.jsonl import (
    Row,
    RowError,
    canonical_json,
    dump_row,
    read_rows,
    sha256_file,
    write_bytes,
)
from refract.rows.labels import JUDGED, REFUSED
from refract.rows.showing import printable
from refract.rows.tables import read_table

PAGE = Path("data/report/report.html")
ANSWERS = Path("data/report/answers.json")
NOTES = 6  # of what differs from the earlier numbers; the rest is counted
TEMPLATES = Path(__file__).parent / "templates"
# Longer texts are cut in the page, which says so; the rows themselves are whole.
LONGEST = 20_000


class Answered(NamedTuple):
    """One prompt variant with one model's answer to it."""

    model: str
    suite: str
    prompt: Row
    response: Row
    verdicts: Mapping[str, Row]
    outcome: str
    changed: str  # "1", "0", or "" where nothing was compared


def read_answers(root: Path, model: str, provenance: Mapping[str, Any]) -> list[Answered]:
    """All prompts, answers and verdicts of one model, in the order of the grid's suites.

    The files must be those that the numbers were made of: their hashes stand in the provenance.
    Raises :class:`RowError` for a file that is missing or another.
    """
    answers = []
    outcomes = {
        (row["suite"], row["prompt_id"]): row
        for row in read_table(root / f"metrics/outcomes/{model}.csv")
    }
    for suite, facts in provenance["suites"].items():
        rows = []
        for kind, path in (
            ("prompts", f"data/prompts/{suite}.jsonl"),
            ("responses", f"data/responses/{model}/{suite}.jsonl"),
            ("verdicts", f"data/verdicts/{model}/{suite}.jsonl"),
        ):
            if not (root / path).is_file():
                raise RowError(
                    f"{path} is not here; run: dvc pull (or, to make it again, dvc repro)"
                )
            if sha256_file(root / path) != facts[f"{kind}_sha256"]:
                raise RowError(f"{path} is not what metrics/ was made of; run: dvc repro")
            rows.append(read_rows(root / path))
        prompts, *others = rows
        responses, verdicts = ({row["prompt_id"]: row for row in found} for found in others)
        for prompt in prompts:
            id_ = prompt["prompt_id"]
            held = outcomes[suite, id_]
            answers.append(
                Answered(
                    model,
                    suite,
                    prompt,
                    responses[id_],
                    verdicts[id_]["judges"],
                    held["outcome"],
                    held["changed"],
                )
            )
    return answers


class _Pool:
    """Each value once, by its place."""

    def __init__(self) -> None:
        self.places: dict[Any, int] = {}

    def place(self, value: Any) -> int:
        return self.places.setdefault(value, len(self.places))


def page_data(answers: Sequence[Answered]) -> Row:
    """The rows as columns, texts and verdicts held once each: what the page's script reads.

    Offsets of evidence count UTF-16 units, as JavaScript's do.
    """
    texts, verdicts, names = _Pool(), _Pool(), {}
    for column in ("model", "suite", "category", "outcome", "perturbation"):
        names[column] = _Pool()
    columns: dict[str, list[Any]] = {
        key: []
        for key in (
            *names,
            "id",
            "clean",
            "prompt",
            "answer",
            "thinking",
            "verdict",
            "similarity",
            "changed",
            "flipped",
            "disagree",
            "repetitions",
            "finish",
            "error",
        )
    }
    place = {
        (row.model, row.suite, row.prompt["prompt_id"]): index for index, row in enumerate(answers)
    }
    for row in answers:
        perturbation = row.prompt["perturbation"]
        clean = place[row.model, row.suite, row.prompt["source_id"]] if perturbation else None
        attempt = row.response["attempt"]
        repetitions = (perturbation or {}).get("repetitions")
        before = None if clean is None else answers[clean].outcome
        scores = [v["score"] for v in row.verdicts.values() if "truncated" in v]
        error = row.response["error"]
        added = {
            "model": names["model"].place(row.model),
            "suite": names["suite"].place(row.suite),
            "category": names["category"].place(row.prompt["category"]),
            "outcome": names["outcome"].place(row.outcome),
            "perturbation": names["perturbation"].place((perturbation or {}).get("name", "none")),
            "id": row.prompt["prompt_id"],
            "clean": clean,
            "prompt": texts.place(_cut(_conversation(row.prompt["attempts"][attempt]))),
            "answer": texts.place(_cut(row.response["response"])),
            "thinking": texts.place(_cut(row.response["thinking"]))
            if row.response.get("thinking")
            else None,
            "verdict": verdicts.place(
                canonical_json(_verdicts(row.verdicts, row.response["response"]))
            ),
            "similarity": scores[0] if perturbation and scores else None,
            "changed": int(row.changed) if row.changed else None,
            "flipped": int(
                before in JUDGED
                and row.outcome in JUDGED
                and (before in REFUSED) != (row.outcome in REFUSED)
            ),
            "disagree": int(_disagree(row.verdicts)),
            "repetitions": repetitions[attempt] if repetitions else None,
            "finish": row.response["finish_reason"],
            "error": f"{error['type']}: {error['message']}"[:LONGEST] if error else None,
        }
        for key, value in added.items():
            columns[key].append(value)
    return {
        "columns": columns,
        "names": {key: list(pool.places) for key, pool in names.items()},
        "texts": list(texts.places),
        # Already JSON: put in as text, read by the script when a row is opened.
        "verdicts": list(verdicts.places),
    }


def _disagree(verdicts: Mapping[str, Row]) -> bool:
    """Whether two judges of refusal say different things, full or partial refusal included."""
    refused = {verdict["refused"] for verdict in verdicts.values()} - {None}
    labels = {verdict["label"] for verdict in verdicts.values()} & {*JUDGED, "degenerate"}
    return len(refused) > 1 or len(labels) > 1


def _conversation(attempt: str | Sequence[Row]) -> str:
    if isinstance(attempt, str):
        return attempt
    return "\n\n".join(f"[{message['role']}]\n{message['content']}" for message in attempt)


def _cut(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    return f"{text[:LONGEST]}\n[{len(text) - LONGEST} more characters are not in this page]"


def _verdicts(verdicts: Mapping[str, Row], answer: str) -> list[Row]:
    """The verdicts as the page shows them, with evidence that lies within what it shows."""
    held = answer[:LONGEST]
    units = [0, *accumulate(1 + (char > "\uffff") for char in held)] if not held.isascii() else None
    shown = []
    for judge, verdict in verdicts.items():
        spans = [
            {
                "start": hit["start"] if units is None else units[hit["start"]],
                "end": hit["end"] if units is None else units[hit["end"]],
                "says": str(hit.get("rule") or hit.get("string") or "")[:200],
            }
            for hit in verdict["evidence"]
            if isinstance(hit, dict) and 0 <= hit.get("start", -1) < hit.get("end", 0) <= len(held)
        ]
        shown.append(
            {
                "judge": judge,
                "label": verdict["label"],
                "score": verdict["score"],
                "error": None if verdict["error"] is None else str(verdict["error"])[:2000],
                "reason": str(verdict.get("reason") or "")[:2000],
                "evidence": spans,
            }
        )
    return shown


def embedded_json(value: Row) -> str:
    """A value as JSON that can stand inside a script element, whatever its texts hold."""
    text = dump_row(value).decode().rstrip("\n")
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def rate_cell(row: Mapping[str, str] | None) -> dict[str, str]:
    """A rate as the main table shows it: the drawing and the numbers."""
    if row is None or not row["rate"]:
        return {"bar": "", "rate": MISSING, "detail": "0/0" if row else ""}
    rate, rest = shown_rate(row).split(" ", 1)
    return {"bar": bar(row), "rate": rate, "detail": rest}


def main_table(tables: Mapping[str, Table]) -> list[dict[str, Any]]:
    """One line for each suite and model: rates by category, what was left out, and passes."""
    lines: list[dict[str, Any]] = []
    for suite in dict.fromkeys(row["suite"] for table in tables.values() for row in table):
        for model, table in tables.items():
            found = {
                row["measure"]: row for row in table if row["suite"] == suite and not row["field"]
            }
            if "refusal_rate" not in found:
                continue
            limits = [row for row in found.values() if row["passed"]]
            lines.append(
                {
                    "suite": suite,
                    "model": model,
                    "rates": [rate_cell(found.get(measure)) for measure in CATEGORY_OF],
                    "left_out": ", ".join(
                        f"{n} {kind}" for kind, n in excluded_counts(found["refusal_rate"]).items()
                    )
                    or "0",
                    "passed": bool(limits) and all(row["passed"] == "1" for row in limits),
                    "limits": limits,
                }
            )
    return lines


def move_lines(moves: Moves) -> list[dict[str, Any]]:
    """The biggest moves as the page shows them, their bars on one scale."""
    ends = [abs(row[key]) for row in moves.rows for key in ("low", "high") if row[key] is not None]
    reach = max(ends, default=1.0) or 1.0
    lines = []
    for row in moves.rows:
        numbers = row["low"], row["difference"], row["high"]
        known = row["low"] is not None
        parts = (row["suite"], row["category"], row["perturbation"])
        lines.append(
            {
                "where": ", ".join(part for part in parts if part),
                "model": row["model"],
                "rates": f"{row['rate_a']:.3f} → {row['rate_b']:.3f}",
                "bar": difference_bar(*numbers, reach) if known else "",
                "difference": f"{row['difference']:+.3f}",
                "interval": f"[{row['low']:+.3f}, {row['high']:+.3f}]" if known else "",
                "flips": f"{len(row['to_refusal'])} / {len(row['to_compliance'])}",
                "n": row["n"],
                "p": MISSING if row["p_holm"] is None else f"{row['p_holm']:.2g}",
                "sure": row["p_holm"] is not None and row["p_holm"] <= 0.05,
            }
        )
    return lines


def read_page_data(root: Path, inputs: Inputs) -> Row:
    """The rows of all models, as :func:`page_data` gives them.

    Raises :class:`RowError` where the texts are not those that the numbers were made of.
    """
    return page_data(
        [
            answer
            for model in inputs.models
            for answer in read_answers(root, model, inputs.provenance[model])
        ]
    )


def write_page(root: Path, inputs: Inputs, figures: Sequence[Figure], data: Row) -> Path:
    """Writes the page of a project's results, and returns where.

    It depends on ``data``, the tree and git's history of it.
    """
    page = html_page(
        inputs.tables,
        inputs.provenance,
        data,
        figures,
        commit=commit_now(root),
        moves=biggest_moves(root),
    )
    write_bytes(root / PAGE, [page])
    return root / PAGE


def html_page(
    tables: Mapping[str, Table],
    provenance: Mapping[str, Any],
    data: Row,
    figures: Sequence[Figure],
    *,
    commit: tuple[Commit, bool] | None = None,
    moves: Moves | None = None,
) -> bytes:
    """The whole page, UTF-8.

    ``data`` is what :func:`page_data` gives; ``commit`` is what is checked out, and whether the tree
    differs from it; ``moves`` are the differences to earlier numbers.
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
    script, style = ((TEMPLATES / name).read_text("utf-8") for name in ("page.js", "page.css"))
    style += STYLE
    lines = main_table(tables)
    judges = {name: kind for found in provenance.values() for name, kind in found["judges"].items()}
    suites = {
        facts["label"]: facts for found in provenance.values() for facts in found["suites"].values()
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
        failed=[
            {"suite": line["suite"], "model": line["model"], **row}
            for line in lines
            for row in line["limits"]
            if row["passed"] != "1"
        ],
        limits=sum(len(line["limits"]) for line in lines),
        figures=[(figure, svg(figure)) for figure in figures],
        commit=commit,
        moves=moves,
        moved=move_lines(moves) if moves else [],
        differs=[printable(note) for note in moves.notes[:NOTES]] if moves else [],
        more=max(0, len(moves.notes) - NOTES) if moves else 0,
        models=list(provenance),
        provenance=provenance,
        judges=judges,
        suites=suites,
        notes=model_notes(provenance),
        answered=len(data["columns"]["id"]),
        data=embedded_json(data),
    )
    return text.encode("utf-8")


def _hash(source: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}"
