"""Gets the answers that readings/readings.csv labels from those who published them.

    python -m tools.refusal_encoder.fetch INTO

writes INTO/real_answers.jsonl and INTO/gptfuzz.jsonl, which ``python -m tools.refusal_encoder train``
takes among its FILES. ``readings/publishers.yaml`` names the published files, each at a commit.
Ends with exit code 1 where an answer was not found.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NotRequired, TypedDict
from urllib.parse import quote

from refract.core.jsonl import write_rows
from refract.core.params import read_yaml
from refract.core.published_text import SourceError
from refract_published.texts import RAW, read_url
from tools.refusal_encoder.data import READINGS

PUBLISHERS = READINGS.with_name("publishers.yaml")
# Characters that were read of an answer: its beginning and its end.
BEGINNING, END = 600, 200
Row = dict[str, Any]


class Publisher(TypedDict):
    """An entry of publishers.yaml, whose head says what each field is."""

    repository: str
    licence: str
    rows: NotRequired[str]
    prompt: NotRequired[str]
    answer: str
    label: NotRequired[str]
    files: dict[str, dict[str, str]]


def shortened(answer: str) -> Row:
    """What was read of an answer, and how many characters stand between the two parts."""
    left_out = len(answer) - BEGINNING - END
    if left_out <= 0:
        return {"beginning": answer, "end": "", "left_out": 0}
    return {"beginning": answer[:BEGINNING], "end": answer[-END:], "left_out": left_out}


def digest(row: Row) -> str:
    """What a row is known by: its model, its prompt, and what was read of the answer. A published
    label stands in for a prompt that was not published, since answers may occur with both labels."""
    asked = str(int(not row["refused"])) if "refused" in row else row["prompt"]
    parts = (row["model"], asked, row["beginning"], row["end"])
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:24]


def rows_in(data: bytes, path: str, model: str, publisher: Publisher) -> Iterator[Row]:
    """The answers in a published file. Raises ValueError, KeyError or TypeError where it has
    another form."""
    text = data.decode("utf-8")
    published: list[Mapping[str, Any]]
    if path.endswith(".csv"):
        published = list(csv.DictReader(io.StringIO(text, newline="")))
    else:
        content = json.loads(text)
        published = content[publisher["rows"]] if "rows" in publisher else content
    for entry in published:
        answer = entry[publisher["answer"]]
        prompt = entry[publisher["prompt"]] if "prompt" in publisher else ""
        if answer is None or prompt is None:  # an attack that found no prompt
            continue
        row = {"model": model, "prompt": prompt, **shortened(answer.strip())}
        if "label" in publisher:
            row["refused"] = entry[publisher["label"]] == "0"
        yield row


def published_rows(source: str, publisher: Publisher, base: str) -> Iterator[Row]:
    """The answers of a publisher; a file that cannot be had or read is named and left out."""
    for commit, paths in publisher["files"].items():
        for path, model in paths.items():
            url = f"{base.rstrip('/')}/{publisher['repository']}/{commit}/{quote(path)}"
            try:
                data = read_url(url, "name a copy of the repositories with --base")
                yield from rows_in(data, path, model, publisher)
            except SourceError as error:
                print(error, file=sys.stderr)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                print(
                    f"{url} has not the form that {PUBLISHERS.name} gives {source}: {error!r}",
                    file=sys.stderr,
                )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.refusal_encoder.fetch",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("into", type=Path, help="folder of the two files")
    parser.add_argument(
        "--base",
        default=RAW,
        help=f"where BASE/OWNER/NAME/COMMIT/PATH is a file ({RAW}); file:///FOLDER for a copy",
    )
    options = parser.parse_args(arguments)
    with open(READINGS, encoding="utf-8", newline="") as file:
        ids = {row["digest"]: row["id"] for row in csv.DictReader(file)}
    publishers: dict[str, Publisher] = read_yaml(PUBLISHERS)
    answers: dict[str, Row] = {}
    for source, publisher in publishers.items():
        for row in published_rows(source, publisher, options.base):
            known = ids.get(digest(row))
            if known:
                answers[known] = {"id": known, "source": source, **row}
    options.into.mkdir(parents=True, exist_ok=True)
    in_order = [answers[known] for known in ids.values() if known in answers]
    for name, personas in (("real_answers", False), ("gptfuzz", True)):
        rows = [row for row in in_order if (row["source"] == "gptfuzz") == personas]
        write_rows(options.into / f"{name}.jsonl", rows)
    print(f"{len(answers)} of {len(ids)} answers found")
    lacking = Counter(known.rpartition("-")[0] for known in ids.values() if known not in answers)
    for source, count in sorted(lacking.items()):
        print(f"{count} of {publishers[source]['repository']} are lacking")
    return 1 if lacking else 0


if __name__ == "__main__":
    sys.exit(main())
