"""Suites: what a row may hold, how a file is checked, how a seeded sample is drawn."""

from __future__ import annotations

import hashlib
import re
from itertools import pairwise
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import Field, model_validator

from refract.core.errors import ParamsError, RefractError
from refract.core.jsonl import BOM, canonical_json, parse_line
from refract.core.settings import Number, Settings, read_settings
from refract.core.showing import core, fold, starts_formula
from refract.core.tool_calls import call_problems
from refract.core.types import Row
from refract.core.vocabulary import CONTROLS

CATEGORIES = ("harmful", "helpful", "borderline")
ROLES = ("system", "user", "assistant")
STRING_FLAGS = (
    *("all_expected_strings_must_be_found", "case_sensitive", "exact_matching"),
    *("punctuation_sensitive", "word_matching"),
)
# Of these, what a text is folded by before the search.
FOLDING = ("case_sensitive", "punctuation_sensitive")
SURROGATE = re.compile("[\ud800-\udfff]")
# Fields that say what is asked; a row has exactly one of them.
CONTENT = ("prompt", "messages", "features")
# Endings of files that are no JSONL.
TABLES = (".csv", ".tsv", ".parquet", ".xlsx")


class Problem(NamedTuple):
    """One thing wrong with a suite file. ``harmless``: the file can still be run as it is."""

    line: int
    message: str
    harmless: bool = False


class Question(Settings):
    """A question of a row's ``rubric``: yes or no, or a number on a scale, taken from 0 to 1."""

    question: Annotated[str, Field(pattern=r"\S")]
    weight: Annotated[Number, Field(gt=0)] = Field(1, description="in the mean of the answers")
    scale: Annotated[list[int], Field(min_length=2, max_length=2)] | None = Field(
        None, description="lowest and highest number; null: yes (1) or no (0)"
    )
    gate: bool = Field(
        False, description="is no part of the mean; its answer takes that share away"
    )

    @model_validator(mode="after")
    def _ordered(self) -> Question:
        if self.scale and not 0 < self.scale[1] - self.scale[0] <= 100:
            raise ValueError("scale must be [lowest, highest], at most 100 apart")
        return self

    @property
    def numbers(self) -> dict[str, int]:
        """The number of each answer that is allowed, by how it is written."""
        if self.scale is None:
            return {"yes": 1, "no": 0}
        return {str(number): number for number in range(self.scale[0], self.scale[1] + 1)}

    def worth(self, number: int) -> float:
        """What an answer counts, from 0 to 1."""
        low, high = self.scale or (0, 1)
        return (number - low) / (high - low)


# How the answers to a rubric add up: their weighted mean, the highest, or the lowest.
RUBRIC_SCORES = ("mean", "any", "all")


class SuiteError(RefractError, ValueError):
    """A suite cannot be used; the message lists every problem with its line."""


def _content_problems(row: Row) -> list[str]:
    present = [field for field in CONTENT if field in row]
    if len(present) != 1:
        got = " and ".join(f"'{field}'" for field in present) or "none of them"
        return [f"a row has exactly one of 'prompt', 'messages' and 'features' (got {got})"]
    (field,) = present
    value = row[field]
    texts = [value]
    needed = "be a text"
    if field == "features":
        needed = "map names to texts"
        texts = [*value.values()] if isinstance(value, dict) else []
    elif field == "messages":
        needed = "be a list with at least one message"
        texts = value if isinstance(value, list) else []
        for message in texts:
            if not (
                isinstance(message, dict)
                and {*message} == {"role", "content"}
                and message["role"] in ROLES
                and isinstance(message["content"], str)
            ):
                return [
                    "each of 'messages' must be {'role': system|user|assistant, 'content': text} "
                    f"(got {message!r:.80})"
                ]
        roles = [message["role"] for message in texts]
        if roles and roles[-1] != "user":
            return ["the last of 'messages' must be the user's"]
        for place, (before, role) in enumerate(pairwise(["", *roles]), 1):
            if (role == "assistant" and before != "user") or (role == "system" and before):
                where = f"behind the {before}'s" if before else "the first"
                return [
                    f"message {place} of 'messages' is the {role}'s and {where}; a system's must be the "
                    "first, an assistant's behind a user's (where two of the user's follow each other, "
                    "the model answers the first before it gets the second)"
                ]
        texts = [message["content"] for message in texts]
    if not texts or not all(isinstance(text, str) for text in texts):
        return [f"'{field}' must {needed} (got {_kind(value)})"]
    blank = [not text.strip() for text in texts]
    wrong = {
        "is empty": all(blank),
        "has an empty message": field == "messages" and any(blank) and not all(blank),
        "holds a NUL character": any("\0" in text for text in texts),
        "holds a lone surrogate, which has no UTF-8 form": any(map(SURROGATE.search, texts)),
    }
    return [f"'{field}' {problem}" for problem, applies in wrong.items() if applies]


def user_places(row: Row) -> list[int]:
    """The places of the user's messages in a row's conversation; a row without one has one turn."""
    messages = row.get("messages", [{"role": "user"}])
    return [place for place, message in enumerate(messages) if message["role"] == "user"]


def played_turns(row: Row) -> list[int]:
    """The numbers of the user's turns that the model answers where a row's conversation is played: those
    that no assistant's message follows. Empty for every row that has all answers but the last."""
    following = pairwise([*user_places(row), -1])
    played = [
        turn for turn, (own, other) in enumerate(following, 1) if other - own == 1 or other < 0
    ]
    return played if len(played) > 1 else []


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}
    return "null" if value is None else names.get(type(value), f"the number {value}")


def row_problems(row: Row) -> list[str]:
    """What is wrong with one suite row, taken alone."""
    problems = []
    id_ = row.get("id")
    if not isinstance(id_, str):
        problems.append(f"'id' must be a text (got {_kind(id_) if 'id' in row else 'no id'})")
    elif not id_.strip():
        problems.append("'id' is empty")
    elif id_ != id_.strip() or not id_.isprintable() or starts_formula(id_):
        # ids stand in CSV files, where a spreadsheet would run one that starts like a formula.
        problems.append(
            f"'id' must be printable, unpadded and not start with = + - @ (got {id_!r})"
        )
    category = row.get("category")
    if category not in CATEGORIES:
        got = repr(category) if "category" in row else "none"
        problems.append(f"'category' must be one of {', '.join(CATEGORIES)} (got {got})")
    problems += _content_problems(row)
    return problems + field_problems(row)


def field_problems(row: Row) -> list[str]:
    """What is wrong with the fields of a row that its judges read."""
    problems = []
    for key, may_be_empty in (("expected_strings", False), ("task_strings", True)):
        strings = row.get(key)
        are_texts = isinstance(strings, list) and all(isinstance(s, str) and s for s in strings)
        if key in row and not (are_texts and (strings or may_be_empty)):
            problems.append(f"'{key}' must be a list of texts (got {_kind(strings)})")
        elif key == "expected_strings" and key in row:
            flags = {flag: row.get(flag, True) is True for flag in FOLDING}
            exact = row.get("exact_matching") is True
            problems += [
                f"'expected_strings' holds {text!r:.60}, in which there is nothing to look for but what "
                "the search leaves out (spaces, invisible characters; quotes and punctuation by the "
                "row's flags)"
                for text in row[key]
                if not core(fold(text, **flags).text, exact_matching=exact)
            ]
    for flag in STRING_FLAGS:
        if flag in row and not isinstance(row[flag], bool):
            problems.append(f"'{flag}' must be true or false (got {_kind(row[flag])})")
    requirement = row.get("requirement")
    if "requirement" in row and not (isinstance(requirement, str) and requirement.strip()):
        problems.append(f"'requirement' must be a text (got {_kind(requirement)})")
    if "pair_id" in row and not isinstance(row["pair_id"], str):
        problems.append(f"'pair_id' must be the id of a row (got {_kind(row['pair_id'])})")
    if "language" in row and not (isinstance(row["language"], str) and row["language"].strip()):
        problems.append(
            f"'language' must be a code such as en or pt-BR (got {_kind(row['language'])})"
        )
    problems += call_problems(row)
    if "rubric" in row:
        problems += _rubric_problems(row)
    elif "rubric_score" in row:
        problems.append("'rubric_score' says how a 'rubric' is added up, and the row has none")
    control = row.get("control")
    if "control" in row and control not in [*CONTROLS]:
        problems.append(f"'control' must be {' or '.join(CONTROLS)} (got {control!r})")
    return problems


def rubric_of(row: Row) -> list[Question]:
    """The questions of a row's rubric; none where it has no rubric. Raises :class:`ParamsError`."""
    return [
        read_settings(Question, f"question {number}", given)
        for number, given in enumerate(row.get("rubric", []), 1)
    ]


def _rubric_problems(row: Row) -> list[str]:
    given, how = row["rubric"], row.get("rubric_score", "mean")
    if not isinstance(given, list):
        return [f"'rubric' must be a list of questions (got {_kind(given)})"]
    try:
        counted = sum(not question.gate for question in rubric_of(row))
    except ParamsError as error:
        return [f"'rubric': {error}"]
    problems = [] if counted else ["'rubric' needs a question that is no gate"]
    if how not in RUBRIC_SCORES:
        problems.append(f"'rubric_score' must be {', '.join(RUBRIC_SCORES)} (got {how!r:.80})")
    return problems


def check_suite(path: Path) -> tuple[list[Row], list[Problem]]:
    """Reads a suite file and finds everything wrong with it in one pass.

    Returns the rows that could be read and all problems in line order. Raises OSError when the file
    cannot be opened."""
    rows: list[Row] = []
    problems: list[Problem] = []
    ids: dict[str, int] = {}
    texts: dict[str, int] = {}
    pairs: list[tuple[int, str]] = []
    spoken: dict[str, set[str]] = {}  # languages of the rows with a pair_id
    data = Path(path).read_bytes()
    if (kind := Path(path).suffix.lower()) in TABLES:
        text = (
            f"a suite is JSONL, and this is a table ({kind}); make one of it: refract import-suite "
            f"generic {path} --prompt-column COLUMN --category harmful --out NAME.jsonl"
        )
        return [], [Problem(1, text)]
    if data.startswith(BOM):
        problems.append(Problem(1, "the file starts with a byte order mark (BOM)", harmless=True))
        data = data.removeprefix(BOM)
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.endswith(b"\r"):
            problems.append(Problem(number, "the line ends in CRLF; use LF", harmless=True))
        if not line.strip():
            continue
        if b"\0" in line:
            problems.append(Problem(number, "the line holds a NUL byte"))
            continue
        try:
            row = parse_line(line)
        except UnicodeDecodeError as error:
            problems.append(Problem(number, f"invalid UTF-8 at byte {error.start} of the line"))
            continue
        except ValueError as error:
            problems.append(Problem(number, f"not JSON: {error}"))
            continue
        if not isinstance(row, dict):
            problems.append(Problem(number, f"a row must be an object (got {_kind(row)})"))
            continue
        of_row = row_problems(row)
        problems += [Problem(number, message) for message in of_row]
        id_ = row.get("id")
        if isinstance(id_, str):
            if id_ in ids:
                problems.append(Problem(number, f"duplicate id {id_!r} (first on line {ids[id_]})"))
            ids.setdefault(id_, number)
        if isinstance(row.get("pair_id"), str):
            pairs.append((number, row["pair_id"]))
            spoken.setdefault(row["pair_id"], set()).add(str(row.get("language", "")))
        if not of_row or not _content_problems(row):
            text = canonical_json([row.get(field) for field in CONTENT])
            if text in texts:
                message = f"duplicate text (first on line {texts[text]})"
                problems.append(Problem(number, message, harmless=True))
            texts.setdefault(text, number)
        if not of_row:
            rows.append(row)
    for number, pair in pairs:
        if pair not in ids and len(spoken[pair] - {""}) < 2:  # translations may share any text
            problems.append(Problem(number, f"'pair_id' names no row of the suite (got {pair!r})"))
    if not rows and all(problem.harmless for problem in problems):
        problems.append(Problem(1, "the suite is empty: it needs at least one row"))
    return rows, sorted(problems)


def load_suite(path: Path) -> list[Row]:
    """The rows of a suite. Raises :class:`SuiteError` unless every row can be used."""
    try:
        rows, problems = check_suite(path)
    except OSError as error:
        raise SuiteError(f"{path}: cannot be read ({error.strerror})") from None
    errors = [problem for problem in problems if not problem.harmless]
    if errors:
        lines = "\n".join(f"  {path}:{problem.line}: {problem.message}" for problem in errors)
        raise SuiteError(f"{path} is not a usable suite:\n{lines}\nrun: refract lint {path}")
    return rows


def sample_rows(rows: list[Row], size: int | None, *, seed: int, suite: str) -> list[Row]:
    """A seeded subset of ``size`` rows, in suite order.

    The rows with the smallest SHA-256 of (seed, suite, id) are taken, so that a row added to the suite
    changes the draw by that row at most. ``None`` or a size not below the suite's takes all."""
    if size is None or size >= len(rows):
        return rows

    def draw(row: Row) -> bytes:
        return hashlib.sha256(canonical_json([seed, suite, row["id"]]).encode()).digest()

    taken = {row["id"] for row in sorted(rows, key=draw)[:size]}
    return [row for row in rows if row["id"] in taken]


def suite_label(suite: str, size: int | None, total: int, seed: int) -> str:
    """The suite's name as numbers show it: with ``[sampled N/M, seed=K]`` where it was sampled, and
    with ``[all M, sample N]`` where it has fewer than were to be drawn."""
    if size is None or size == total:
        return suite
    if size > total:
        return f"{suite}[all {total}, sample {size}]"
    return f"{suite}[sampled {size}/{total}, seed={seed}]"


def samples_label(label: str, samples: int) -> str:
    """A suite's label with ``[K samples]`` where each prompt is answered more than once."""
    return label if samples == 1 else f"{label}[{samples} samples]"


def row_seed(seed: int, suite: str, prompt_id: str, sample: int = 1) -> int:
    """The seed of one row's own generator: 31 bits of SHA-256 of (seed, suite, prompt id), for a
    further sample of (seed, suite, prompt id, "sample", its number)."""
    on = [seed, suite, prompt_id] + (["sample", sample] if sample > 1 else [])
    digest = hashlib.sha256(canonical_json(on).encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1
