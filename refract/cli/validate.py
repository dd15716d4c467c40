"""``refract validate``: a judge against a labelled file of the user's own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from refract.cli.options import Confidence, listed, mapping
from refract.cli.printing import print_table
from refract.errors import UsageError
from refract.rows.jsonl import RowError, canonical_json, sha256_file, write_json
from refract.rows.labels import LABELS, REFUSED
from refract.rows.showing import say
from refract.rows.types import Row

if TYPE_CHECKING:
    from refract.statistics.agreement import Detection, Estimate, Kappa


class Columns(NamedTuple):
    """Where a labelled file holds what: names of columns; no prompt column means no prompts."""

    response: str
    label: str
    prompt: str | None


class Reading(NamedTuple):
    """How a file's labels are read.

    ``positive`` values mean refused and all others not; without them, ``labels`` maps values to
    ``LABELS``. Rows with a value of ``skip``, or without one of ``where``, are left out.
    ``full_only`` has a partial refusal count as none on the judge's side.
    """

    positive: Sequence[str]
    labels: Mapping[str, str]
    skip: Sequence[str]
    where: Mapping[str, str]
    full_only: bool


def spelt(value: Any) -> str | None:
    """A cell as options spell it: ``true`` for a JSON true, ``0`` for 0; None where it is empty."""
    if value is None or value == "":
        return None
    return value if isinstance(value, str) else canonical_json(value)


def read_labelled(
    paths: Sequence[Path], columns: Columns, reading: Reading
) -> tuple[list[Row], dict[str, int]]:
    """The labelled answers of some files, and how many rows were left out, by reason.

    Rows have ``prompt``, ``response``, ``label``, the file's value, and ``slice`` (or nothing). Raises
    :class:`UsageError` for columns and values that no row has, :class:`RowError` for others.
    """
    from refract.importing.files import read_table

    rows: list[Row] = []
    left_out: Counter[str] = Counter()
    seen: dict[str, set[str]] = {name: set() for name in reading.where}
    for path in paths:
        if not path.is_file():
            raise UsageError(f"--labelled: no file {path}")
        table = read_table(path)
        wanted = [columns.response, columns.label, columns.prompt, *reading.where]
        missing = [name for name in wanted if name is not None and name not in table.columns]
        if missing:
            raise UsageError(
                f"{path} has no column {missing[0]!r}; it has: {', '.join(table.columns)}"
            )
        for row, line in zip(table.rows, table.lines, strict=True):
            values = {name: spelt(row.get(name)) for name in reading.where}
            for name, value in values.items():
                seen[name].add(str(value))
            if values != dict(reading.where):
                left_out["other rows (--where)"] += 1
                continue
            label = spelt(row.get(columns.label))
            response = row.get(columns.response)
            prompt = row.get(columns.prompt) if columns.prompt else ""
            if label is None:
                left_out["no label"] += 1
            elif label in reading.skip:
                left_out[f"label {label} (--skip)"] += 1
            elif not isinstance(response, str | None) or not isinstance(prompt, str | None):
                raise RowError(
                    f"{path}:{line}: response and prompt must be texts "
                    f"(got {response!r:.60} and {prompt!r:.60})"
                )
            elif response is None:
                left_out["no response"] += 1
            else:
                slice_ = spelt(row.get("slice")) or ""
                rows.append(
                    {"prompt": prompt or "", "response": response, "label": label, "slice": slice_}
                )
    for name, value in reading.where.items():
        if value not in seen[name]:
            raise UsageError(
                f"--where {name}={value}: no row has it; there are: "
                f"{', '.join(sorted(seen[name])[:20])}"
            )
    if not rows:
        raise UsageError("no row is left to judge: " + _counts(left_out))
    return rows, dict(sorted(left_out.items()))


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{n} {what}" for what, n in counts.items()) or "none"


def _check_values(rows: Sequence[Row], reading: Reading) -> None:
    values = sorted({row["label"] for row in rows})
    unknown = [value for value in reading.positive if value not in values]
    if unknown:
        raise UsageError(
            f"--positive {unknown[0]}: no row has that label; there are: {', '.join(values[:20])}"
        )
    wrong = sorted({label for label in reading.labels.values() if label not in LABELS})
    if wrong:
        raise UsageError(f"--map: a label must be one of {', '.join(LABELS)} (got {wrong[0]!r})")
    strange = [value for value in values if reading.labels.get(value, value) not in LABELS]
    if not reading.positive and strange:
        raise UsageError(
            f"the label {strange[0]!r} is none of {', '.join(LABELS)}; say which values mean refused "
            "with --positive VALUE,..., or which label each is with --map VALUE=LABEL"
        )


def validate(
    labelled: Annotated[
        list[Path], typer.Option(help="Answers with human labels: CSV, JSONL. Repeatable.")
    ],
    judge: Annotated[
        str, typer.Option(help="A judge of params.yaml, or a kind of judge.")
    ] = "rules",
    response_column: Annotated[str, typer.Option(help="The answers.")] = "response",
    label_column: Annotated[
        str, typer.Option(help="The labels; empty and null ones are left out.")
    ] = "label",
    prompt_column: Annotated[
        str | None, typer.Option(help="The prompts, for judges that read them.")
    ] = None,
    positive: Annotated[
        list[str] | None,
        typer.Option(help="Labels that mean refused: VALUE,...; all others mean not. Repeatable."),
    ] = None,
    map_: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            help="Instead of --positive: VALUE=refusal, partial_refusal, compliance or degenerate. "
            "Repeatable.",
        ),
    ] = None,
    skip: Annotated[
        list[str] | None, typer.Option(help="Labels to leave out: VALUE,... Repeatable.")
    ] = None,
    where: Annotated[
        list[str] | None, typer.Option(help="Only rows with COLUMN=VALUE. Repeatable.")
    ] = None,
    full_only: Annotated[
        bool,
        typer.Option("--full-only", help="A partial refusal of the judge's counts as not refused."),
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Also write the numbers here (JSON).")] = None,
    confidence: Confidence = None,
) -> None:
    """Measure a judge against human labels: κ, precision, recall, each with its interval.

    Example: refract validate --labelled answers.csv --label-column refused --positive yes
    """
    from refract.judge_errors import judge_pairs
    from refract.judges import open_judge
    from refract.project import find_judge, find_project

    reading = Reading(
        positive=listed(positive),
        labels=mapping("--map", map_),
        skip=listed(skip),
        where=mapping("--where", where),
        full_only=full_only,
    )
    if reading.positive and reading.labels:
        raise UsageError("give --positive or --map, not both")
    if reading.full_only and not reading.positive:
        raise UsageError("--full-only goes with --positive")
    level = float(confidence or 0.95)
    definition = find_judge(judge, find_project())
    columns = Columns(response_column, label_column, prompt_column)
    rows, left_out = read_labelled(labelled, columns, reading)
    _check_values(rows, reading)
    opened = open_judge(judge, definition)
    verdicts = judge_pairs(rows, {judge: opened})[judge]
    found = [verdict["label"] for verdict in verdicts]
    other = sorted({label for label in found if label not in (*LABELS, None)})
    if other:
        raise UsageError(
            f"judge {judge!r} does not label refusal: its labels are {', '.join(other)}"
        )
    results: Row = {
        "judge": {judge: {**definition, "version": opened.version}},
        "files": {str(path): sha256_file(path) for path in labelled},
        "left_out": left_out,
    }
    say(
        f"{judge} on {', '.join(map(str, labelled))}: {len(rows)} answers; "
        f"left out: {_counts(left_out)}"
    )
    if reading.positive:
        alarms = ["refusal"] if reading.full_only else list(REFUSED)
        results |= _binary(rows, found, reading.positive, alarms, level)
    else:
        results |= _labelled(rows, found, reading.labels, level)
    if out is not None:
        write_json(out, results)


def _binary(
    rows: Sequence[Row],
    found: Sequence[str | None],
    positive: Sequence[str],
    alarms: Sequence[str],
    level: float,
) -> Row:
    from refract.validation import refusal_numbers, score_refusals

    judged = [
        (row["label"], label in alarms)
        for row, label in zip(rows, found, strict=True)
        if label is not None
    ]
    score = score_refusals(
        [value in positive for value, _ in judged], [b for _, b in judged], level
    )
    numbers = {
        "n": len(judged),
        "unjudged": len(rows) - len(judged),
        "positive": sorted(positive),
        "alarms": list(alarms),
        **refusal_numbers(score),
        "values": {
            value: {
                "positive": value in positive,
                "n": sum(v == value for v, _ in judged),
                "refused": sum(refused for v, refused in judged if v == value),
            }
            for value in sorted({v for v, _ in judged})
        },
    }
    _print_score(len(judged), numbers["unjudged"], score.kappa, score.detection, level)
    print_table(
        ["label in the file", "means", "answers", "judge: refused"],
        [
            [value, "refused" if row["positive"] else "not", str(row["n"]), str(row["refused"])]
            for value, row in numbers["values"].items()
        ],
    )
    return numbers


def _labelled(
    rows: Sequence[Row], found: Sequence[str | None], labels: Mapping[str, str], level: float
) -> Row:
    from refract.validation import group_rows, label_numbers, score_labels

    truth = [labels.get(row["label"], row["label"]) for row in rows]
    score = score_labels(truth, found, level)
    _print_score(score.n, score.unjudged, score.refusal.kappa, score.refusal.detection, level)
    print_table(
        ["labels", "agree", f"κ [{100 * level:g} %]"],
        [["all", _estimate(score.accuracy), _kappa(score.kappa)]],
    )
    print_table(
        ["human \\ judge", *map(str, score.confusion.labels)],
        [
            [str(label), *map(str, counts)]
            for label, counts in zip(score.confusion.labels, score.confusion.counts, strict=True)
        ],
    )
    by_label = [{"label": label} for label in truth]
    return {**label_numbers(score), "by_label": group_rows(by_label, "label", truth, found, level)}


def _print_score(n: int, unjudged: int, kappa: Kappa, found: Detection, level: float) -> None:
    print_table(
        [
            "n",
            "unjudged",
            f"κ [{100 * level:g} %]",
            "precision",
            "recall",
            "specificity",
            "accuracy",
        ],
        [
            [
                str(n),
                str(unjudged),
                _kappa(kappa),
                *(
                    _estimate(getattr(found, name))
                    for name in ("precision", "recall", "specificity", "accuracy")
                ),
            ]
        ],
    )


def _kappa(kappa: Kappa) -> str:
    if kappa.kappa is None:
        return "—"
    return f"{kappa.kappa:.3f} [{kappa.low:.3f}, {kappa.high:.3f}]"


def _estimate(estimate: Estimate | None) -> str:
    if estimate is None:
        return "—"
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"
