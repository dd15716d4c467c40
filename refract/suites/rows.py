"""Suites: what a row may hold, how a file is checked, how a seeded sample is drawn."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from refract.core.errors import RefractError
from refract.core.jsonl import BOM, canonical_json, holds_row, parse_json, parse_line
from refract.core.played import played
from refract.core.showing import core, fold, starts_formula
from refract.core.tool_calls import NAMING
from refract.core.types import Row, filled
from refract.core.vocabulary import CONTROLS, UNUSABLE

CATEGORIES = ("harmful", "helpful", "borderline")
ROLES = ("system", "user", "assistant")
STRING_FLAGS = (
    "all_expected_strings_must_be_found",
    "case_sensitive",
    "exact_matching",
    "punctuation_sensitive",
    "word_matching",
)
# The flags that decide how a text is folded before the search.
FOLDING = ("case_sensitive", "punctuation_sensitive")
# Fields that say what is asked; a row has exactly one of them.
CONTENT = ("prompt", "messages", "features")
# Fields that others send to models, and nothing here does.
UNSENT = (
    *("attachments", "audio", "audio_url", "content", "document", "documents", "image"),
    *("image_url", "input_audio", "system", "system_prompt", "video", "video_url"),
)
# Words in the names of such fields, and from how much likeness on a name is taken for a slip of one.
MEDIA = ("attachment", "audio", "image", "img", "photo", "picture", "video")
LIKENESS = 0.88
# Fields for the package refract-dialogue: what a model may call, and what that returns.
OF_DIALOGUE = ("tools", *NAMING, "tool_results", "max_steps")
ID_REMEDY = "delete one of the two, or give it another id"
# Endings of files that are tables, not JSONL.
TABLES = (".csv", ".tsv", ".parquet", ".xlsx")


class Problem(NamedTuple):
    """One thing wrong with a suite file. ``harmless``: the file can still be run as it is."""

    line: int
    message: str
    harmless: bool = False


class SuiteError(RefractError, ValueError):
    """A suite cannot be used; the message lists every problem with its line."""


def unsent_fields(row: Row) -> list[str]:
    """The fields of a row that others send to models and nothing here does, by their names, or where
    they hold content by names near theirs."""
    fields = []
    for field, value in row.items():
        is_content = isinstance(value, str | list | dict) and field not in FIELDS
        if value and (field in UNSENT or (is_content and _is_near_unsent(field))):
            fields.append(field)
    return fields


@cache
def _is_near_unsent(field: str) -> bool:
    words = re.findall("[A-Z]?[a-z]+|[A-Z]+", field)
    named = get_close_matches(field.lower(), UNSENT, 1, LIKENESS)
    return bool(named) or any(get_close_matches(x.lower(), MEDIA, 1, LIKENESS) for x in words)


def _content_problems(row: Row) -> list[str]:
    """What is wrong with the field of a row that says what is asked."""
    unsent = unsent_fields(row)
    if unsent:
        return [
            f"'{unsent[0]}' would not be sent: models get the texts of {', '.join(CONTENT)} alone; "
            "put a text there, or give a column that is none of the prompt another name"
        ]
    present = [field for field in CONTENT if field in row]
    if len(present) != 1:
        got = " and ".join(f"'{field}'" for field in present) or "none of them"
        return [f"a row has exactly one of 'prompt', 'messages' and 'features' (got {got})"]
    field = present[0]
    value = row[field]
    texts = [value]
    wanted = "be a text"
    if field == "features":
        wanted = "map names to texts"
        texts = list(value.values()) if isinstance(value, dict) else []
    elif field == "messages":
        wanted = "be a list with at least one message"
        messages = value if isinstance(value, list) else []
        problem = _messages_problem(messages)
        if problem:
            return [problem]
        texts = [message["content"] for message in messages]
    if not texts or not all(isinstance(text, str) for text in texts):
        return [f"'{field}' must {wanted} (got {value!r:.60})"]
    blank = [not text.strip() for text in texts]
    problems = []
    if all(blank):
        problems.append(f"'{field}' is empty")
    elif field == "messages" and any(blank):
        problems.append(f"'{field}' has an empty message")
    if any(re.search(UNUSABLE, text) for text in texts):
        problems.append(f"'{field}' holds a NUL character, or a lone surrogate, which UTF-8 lacks")
    return problems


def _messages_problem(messages: list[Any]) -> str:
    """What is wrong with the form of a conversation, or with the order of its roles."""
    for message in messages:
        has_form = isinstance(message, dict) and set(message) == {"role", "content"}
        if not has_form or message["role"] not in ROLES or not isinstance(message["content"], str):
            return (
                "each of 'messages' must be {'role': system|user|assistant, 'content': text} "
                f"(got {message!r:.80})"
            )
    roles = [message["role"] for message in messages]
    if roles and roles[-1] != "user":
        return "the last of 'messages' must be the user's"
    for place, (before, role) in enumerate(pairwise(["", *roles]), 1):
        if (role == "assistant" and before != "user") or (role == "system" and before):
            where = f"behind the {before}'s" if before else "the first"
            return (
                f"message {place} of 'messages' is the {role}'s and {where}; a system's must be the "
                "first, an assistant's behind a user's (of two user's the model answers the first)"
            )
    return ""


def is_played(row: Row) -> bool:
    """Whether a row is one for refract-dialogue: the model answers several of its turns, or
    is offered tools."""
    roles = [message["role"] for message in row.get("messages", ())]
    follows = any(pair == ("user", "user") for pair in pairwise(roles))
    return follows or any(field in row for field in OF_DIALOGUE)


def row_problems(row: Row) -> list[str]:
    """What is wrong with one suite row, taken alone."""
    problems = []
    id_ = row.get("id")
    if not isinstance(id_, str):
        problems.append(f"'id' must be a text (got {id_!r:.60})")
    elif not id_.strip():
        problems.append("'id' is empty")
    elif id_ != id_.strip() or not id_.isprintable() or starts_formula(id_):
        # ids stand in CSV files, where a spreadsheet would run one that starts like a formula.
        problems.append(
            f"'id' must be printable, unpadded and not start with = + - @ (got {id_!r})"
        )
    category = row.get("category")
    if category not in CATEGORIES:
        problems.append(f"'category' must be one of {', '.join(CATEGORIES)} (got {category!r:.60})")
    problems += _content_problems(row) + field_problems(row)
    if not problems and is_played(row):
        problems = played("problems")(row)
    return problems


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) and text for text in value)


def _are_hashes(value: Any) -> bool:
    return _are_texts(value) and all(re.fullmatch("[0-9a-f]{64}", text) for text in value)


# Fields that judges and tables read: what each must be, and whether a value is that.
FIELDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "expected_strings": ("a list of texts", lambda value: bool(value) and _are_texts(value)),
    "task_strings": ("a list of texts", _are_texts),
    **dict.fromkeys(STRING_FLAGS, ("true or false", lambda value: isinstance(value, bool))),
    "requirement": ("a text", _is_text),
    "reference": ("a text", _is_text),
    "pair_id": ("the id of a row", lambda value: isinstance(value, str | None)),
    "language": ("a code such as en or pt-BR", _is_text),
    "images": ("a list of SHA-256 hashes, since no image is sent", _are_hashes),
}


def field_problems(row: Row) -> list[str]:
    """What is wrong with the fields of a row that its judges read."""
    problems = []
    for field, (wanted, fits) in FIELDS.items():
        if field in row and not fits(row[field]):
            problems.append(f"'{field}' must be {wanted} (got {row[field]!r:.60})")
    if _are_texts(row.get("expected_strings")):
        flags = {flag: row.get(flag, True) is True for flag in FOLDING}
        exact = row.get("exact_matching") is True
        for text in row["expected_strings"]:
            if not core(fold(text, **flags).text, exact_matching=exact):
                problems.append(
                    f"'expected_strings' holds {text!r:.60}, in which there is nothing to look for "
                    "but what the search leaves out (spaces, invisible characters; quotes and "
                    "punctuation by the row's flags)"
                )
    if any(field in row for field in OF_DIALOGUE):
        problems += played("problems")(row)
    control = row.get("control")
    if "control" in row and control not in list(CONTROLS):
        problems.append(f"'control' must be {' or '.join(CONTROLS)} (got {control!r})")
    return problems


def what_is_asked(row: Row) -> str:
    """A row's prompt, as the message that it is sent as, its messages or its features, as one text:
    rows of the same text are one request. In rows of answers a prompt may be messages, and messages
    may go on with the answer."""
    asked = row.get("messages") or row.get("prompt")
    if isinstance(asked, str):
        asked = [{"role": "user", "content": asked}]
    elif isinstance(asked, list):
        roles = [message.get("role") if isinstance(message, Mapping) else None for message in asked]
        while "user" in roles and roles[-1] == "assistant":
            roles.pop()
        asked = asked[: len(roles)]
    return canonical_json([asked, row.get("features")])


def attacked(row: Row, rows: Mapping[str, Row]) -> Row | None:
    """The plain request that a row attacks: the harmful row that a harmful one names by ``pair_id``. A
    row in another language than that one's, where both name theirs, is a translation and no attack."""
    pair = filled(row.get("pair_id"))
    plain = None if pair in (None, row["id"]) else rows.get(str(pair))
    if plain is None or not row.get("category") == plain.get("category") == "harmful":
        return None
    languages = {row.get("language"), plain.get("language")} - {None}
    return plain if len(languages) < 2 else None


def pair_problems(numbered: Iterable[tuple[int, Row]]) -> list[tuple[int, str]]:
    """What is wrong with the pairs of a suite's rows, with the number of the row."""
    ids: set[str] = set()
    pairs: list[tuple[int, str]] = []
    languages: dict[str, set[str]] = {}  # of the rows with a pair_id
    for number, row in numbered:
        pair = filled(row.get("pair_id"))
        if isinstance(row.get("id"), str):
            ids.add(row["id"])
        if isinstance(pair, str):
            pairs.append((number, pair))
            languages.setdefault(pair, set()).add(str(row.get("language", "")))
    problems = []
    for number, pair in pairs:
        if pair not in ids and len(languages[pair] - {""}) < 2:  # translations may share any text
            problems.append((number, f"'pair_id' names no row of the suite (got {pair!r})"))
    return problems


def check_suite(path: Path) -> tuple[list[Row], list[Problem]]:
    """The rows of a suite file that can be used, and everything wrong with it, in line order.
    Raises OSError when the file cannot be opened."""
    data = Path(path).read_bytes()
    kind = Path(path).suffix.lower()
    if kind in TABLES:
        message = (
            f"a suite is JSONL, and this is a table ({kind}); make one of it: refract import-suite "
            f"generic {path} --prompt-column COLUMN --category harmful --out NAME.jsonl, which comes "
            "with refract-published (pip install 'refract-eval[published]')"
        )
        return [], [Problem(1, message)]
    rows: list[Row] = []
    problems: list[Problem] = []
    ids: dict[str, int] = {}
    texts: dict[str, int] = {}
    parsed: list[tuple[int, Row]] = []
    if data.startswith(BOM):
        problems.append(Problem(1, "the file starts with a byte order mark (BOM)", harmless=True))
        data = data.removeprefix(BOM)
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.endswith(b"\r"):
            problems.append(Problem(number, "the line ends in CRLF; use LF", harmless=True))
        if not holds_row(line):
            continue
        try:
            row = _parse_row(line)
        except ValueError as error:
            problems.append(Problem(number, str(error)))
            continue
        parsed.append((number, row))
        row_messages = row_problems(row)
        problems += [Problem(number, message) for message in row_messages]
        if not row_messages:
            rows.append(row)
        id_ = row.get("id")
        if isinstance(id_, str) and ids.setdefault(id_, number) != number:
            message = f"duplicate id {id_!r} (first on line {ids[id_]}); {ID_REMEDY}"
            problems.append(Problem(number, message))
        if not row_messages or not _content_problems(row):
            text = what_is_asked(row)
            if texts.setdefault(text, number) != number:
                message = f"duplicate text (first on line {texts[text]}): both count as one request"
                problems.append(Problem(number, message, harmless=True))
    problems += [Problem(number, message) for number, message in pair_problems(parsed)]
    if not rows and all(problem.harmless for problem in problems):
        problems.append(Problem(1, "the suite is empty: it needs at least one row"))
    return rows, sorted(problems)


def _parse_row(line: bytes) -> Row:
    """The row on a line. Raises ValueError, which says what is wrong with the line."""
    if b"\0" in line:
        raise ValueError("the line holds a NUL byte")
    try:
        row = parse_line(line)
        parse_json(line, keys_once=True)
    except UnicodeDecodeError as error:
        raise ValueError(f"invalid UTF-8 at byte {error.start} of the line") from None
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(row, dict):
        raise ValueError(f"a row must be an object (got {row!r:.60})")
    return row


def load_suite(path: Path) -> list[Row]:
    """The rows of a suite. Raises SuiteError unless every row can be used."""
    try:
        rows, problems = check_suite(path)
    except OSError as error:
        raise SuiteError(f"{path}: cannot be read ({error.strerror})") from None
    errors = [problem for problem in problems if not problem.harmless]
    if errors:
        lines = "\n".join(f"  {path}:{problem.line}: {problem.message}" for problem in errors)
        raise SuiteError(f"{path} is not a usable suite:\n{lines}\nrun: refract lint {path}")
    return rows


def row_seed(seed: int, suite: str, prompt_id: str, sample: int = 1) -> int:
    """The seed of one row's own generator: 31 bits of the SHA-256 of (seed, suite, prompt
    id), for a further sample of (seed, suite, prompt id, "sample", its number)."""
    key: list[int | str] = [seed, suite, prompt_id]
    if sample > 1:
        key += ["sample", sample]
    digest = hashlib.sha256(canonical_json(key).encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1
