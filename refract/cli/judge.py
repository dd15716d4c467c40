"""``refract judge``: verdicts on answers that already exist."""

from __future__ import annotations

from pathlib import Path

from refract.cli.project import find_judge, find_params
from refract.errors import UsageError
from refract.judges import judge_suite, open_judge
from refract.rows.jsonl import Row, RowError, read_rows, write_rows


def judge_file(judge: str, source: Path, target: Path) -> None:
    """Writes one verdict row for each row of ``source``, in order, to ``target``."""
    if not source.is_file():
        raise UsageError(f"--in: no file {source}")
    definition = find_judge(judge, find_params())
    rows = read_rows(source)
    prompts, responses, sources = [], [], {}
    for number, row in enumerate(rows, 1):
        id_ = row.get("prompt_id", row.get("id"))
        response = row.get("response")
        if not isinstance(id_, str) or not isinstance(response, str | None):
            raise RowError(
                f"{source}: row {number} needs a text as 'prompt_id' or 'id', and a text or null as "
                f"'response' (got {id_!r} and {response!r:.60})"
            )
        # Rows are told apart by their place: nothing says that ids do not repeat.
        key = str(number)
        prompt = row.get("prompt") or ""
        if not isinstance(prompt, str) and not _is_conversation(prompt):
            raise RowError(
                f"{source}: row {number} needs a text or a list of messages as 'prompt' "
                f"(got {prompt!r:.60})"
            )
        prompts.append(
            {"prompt_id": key, "source_id": key, "perturbation": None, "attempts": [prompt]}
        )
        reason = "error" if response is None else row.get("finish_reason") or "stop"
        responses.append(
            {
                "prompt_id": key,
                "response": response or "",
                "finish_reason": reason,
                "attempt": 0,
            }
        )
        sources[key] = {**row, "id": key, "prompt": prompt}
    verdicts = judge_suite(prompts, responses, sources, {judge: open_judge(judge, definition)})
    write_rows(
        target,
        (
            _verdict_row(row.get("prompt_id", row.get("id")), judge, row, verdict["judges"][judge])
            for row, verdict in zip(rows, verdicts, strict=True)
        ),
    )


def _is_conversation(prompt: object) -> bool:
    return isinstance(prompt, list) and all(
        isinstance(message, dict) and isinstance(message.get("content"), str) for message in prompt
    )


def _verdict_row(prompt_id: str, judge: str, row: Row, verdict: Row) -> Row:
    if verdict["label"] is None and verdict["error"] is None:
        what = "null" if row.get("response") is None else "empty or no answer of the model's"
        verdict = {**verdict, "error": f"not judged: the response is {what}"}
    # What tells this answer from another model's to the same prompt, where the row says it.
    scope = {key: row[key] for key in ("model", "suite") if isinstance(row.get(key), str)}
    return {"prompt_id": prompt_id, **scope, "judge": judge, **verdict}
