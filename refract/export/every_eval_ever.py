"""Results as records of Every Eval Ever, schema 0.3.0: https://github.com/evaleval/every_eval_ever

One record for each model and suite, with every rate that has a value, and, where the texts are on
this machine, one line for each judged answer. A line has to say whether the answer is correct: what
was not judged has no line, and is counted in the record. ``templates/`` has the form of both.
"""

from __future__ import annotations

import json
import os
import re
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from refract.core.errors import UsageError
from refract.core.jsonl import dump_row, sha256_json, write_json, write_rows
from refract.core.types import Row
from refract.core.vocabulary import JUDGED, REFUSED
from refract.report.view import SERVED
from refract.report.wording import plain
from refract.results.sources import read_run
from refract.results.table_rows import confidence_of

if TYPE_CHECKING:
    import jinja2
    import pandas as pd

    from refract.results import Results

# Which rate an answer to a clean prompt is counted in, and what it should be.
CLEAN = {
    "harmful": ("harmful_refusal_rate", "refusal"),
    "helpful": ("over_refusal_rate", "compliance"),
    "borderline": ("borderline_refusal_rate", "compliance"),
}


def write_records(
    results: Results, place: Path, out: Path, publisher: Mapping[str, str], given: Mapping[str, str]
) -> Iterator[str]:
    """Writes the records of a project or of a results file; says of each what was written.

    ``publisher`` is who ran the evaluation (``organization``) and what they are to the models
    (``relationship``); ``given`` are models' ids by name, for those that are not to go by
    :func:`model_id`. The moment is now, or that which ``SOURCE_DATE_EPOCH`` names.
    """
    models = list(dict.fromkeys(results.tables["model"]))
    if place.is_file():
        provenance = {models[0]: read_run(place)["provenance"]}
    else:
        paths = {model: place / f"metrics/provenance/{model}.json" for model in models}
        provenance = {model: json.loads(path.read_text("utf-8")) for model, path in paths.items()}
    for name, id_ in given.items():
        if name not in provenance or not all(id_.partition("/")):
            raise UsageError(
                f"--model-id takes NAME=DEVELOPER/MODEL, NAME being one of {', '.join(models)} "
                f"(got {name}={id_!r})"
            )
    ids = {
        name: given.get(name) or model_id(name, facts["model"]["definition"])
        for name, facts in provenance.items()
    }
    shared = {
        **publisher,
        "moment": os.environ.get("SOURCE_DATE_EPOCH") or str(int(time.time())),
        "version": version("refract-eval"),
    }
    templates = _templates()
    left_out = Counter[str]()
    lines = 0
    outcomes, rows = map(_as_rows, (results.outcomes, results.rows))
    texts = {(row["model"], row["suite"], row["prompt_id"]): row for row in rows}
    with_rate = results.tables.dropna(subset="rate")
    for (name, label), rates in with_rate.groupby(["model", "suite"], sort=False):
        answers = [
            row | texts.get((name, row["suite"], row["prompt_id"]), {})
            for row in outcomes
            if row["model"] == name and row["suite"] in (label, plain(label))
        ]
        known = shared | {"label": label, "rates": _as_rows(rates), "model": ids[name]}
        path, samples, unjudged = _write(templates, out, answers, provenance[name], known)
        yield f"{path}: {len(rates)} rates, {samples} answers"
        left_out += unjudged
        lines += samples
    counts = ", ".join(f"{count} {reason}" for reason, count in sorted(left_out.items())) or "none"
    yield f"{lines} answers; left out, not judged or not compared: {counts}"
    if local := [f"{name} as {id_}" for name, id_ in ids.items() if id_.startswith("local/")]:
        yield f"note: {', '.join(local)}; --model-id names them otherwise"


def model_id(name: str, definition: Mapping[str, Any]) -> str:
    """A model's id as DEVELOPER/NAME: that of the hub or provider, else ``local/NAME``."""
    given, adapter = str(definition.get("model_id", "")), definition["adapter"]
    local = adapter in ("hf", "vllm")
    if local and re.fullmatch(r"[\w-]+/[\w.-]+", given) and not given.startswith("data/"):
        return given
    if _is_served(definition):
        return given if given.startswith(f"{adapter}/") else f"{adapter}/{given}"
    return f"local/{name}"


def _is_served(definition: Mapping[str, Any]) -> bool:
    """Whether a provider computes the answers."""
    return definition["adapter"] in SERVED and not definition.get("base_url")


def _as_rows(frame: pd.DataFrame) -> list[Row]:
    """A data frame as rows, with None for what is missing."""
    cells = frame.astype(object)
    rows: list[Row] = cells.where(cells.notna(), None).to_dict("records")
    return rows


def _templates() -> jinja2.Environment:
    import jinja2

    templates = jinja2.Environment(
        loader=jinja2.PackageLoader("refract.export"), autoescape=False, trim_blocks=True
    )
    templates.globals |= {
        "SCHEMA": "0.3.0",
        "excluded": lambda row: {key: row[key] for key in row if key.startswith("excluded_")},
    }
    templates.filters |= {
        "details": _details,
        "sha256": lambda text: sha256(text.encode()).hexdigest(),
    }
    return templates


def _details(values: Mapping[str, Any]) -> str:
    """Details as the schema wants them, as JSON: texts, without those that are not known."""
    texts = {
        key: value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=int)
        for key, value in values.items()
        if value is not None and str(value)  # what a template does not find is an empty text
    }
    return json.dumps(texts)


def _write(
    templates: jinja2.Environment, out: Path, answers: list[Row], facts: Row, known: Row
) -> tuple[Path, int, Counter[str]]:
    """Writes a record and its samples: where, how many samples, how many answers have none and why."""
    label, model = known["label"], known["model"]
    # A run of `refract run` names its suites by their labels.
    suites = facts["suites"].items()
    made: Row = next((of for name, of in suites if of.get("label", name) == label), {})
    definition = facts["model"]["definition"]
    settings = ("temperature", "top_p", "top_k", "max_tokens")
    known |= {
        "suite": plain(label),
        "facts": facts,
        "made": made,
        "judge": (made.get("judges") or ["unknown"])[0],
        "evaluation_id": f"{label}/{model}/{known['moment']}",
        "confidence": confidence_of(facts),
        "identity_sha256": sha256_json(facts["model"].get("identity")),
        "served": _is_served(definition),
        "arguments": {k: definition[k] for k in settings if definition.get(k) is not None},
    }
    overall = {row["measure"] for row in known["rates"] if not row["field"]}
    template, samples, left_out = templates.get_template("sample.json.j2"), [], Counter[str]()
    for row in answers:
        measure, right, counted, reason = _counted(row)
        if reason or measure not in overall:
            left_out[reason or "no rate"] += 1
        elif row.get("response") is not None:
            more = {"row": row, "measure": measure, "right": right, "counted": counted}
            samples.append(json.loads(template.render(known, **more)))
    not_judged = {f"not_judged_{reason}": count for reason, count in left_out.items()}
    text = templates.get_template("record.json.j2").render(known, not_judged=not_judged)
    record = json.loads(text)
    # The same results have the same name, whenever they are exported.
    hashes = [row["sample_hash"] for row in samples]
    content = [label, model, record["evaluation_results"], hashes, known["organization"]]
    name = str(uuid.UUID(bytes=bytes.fromhex(sha256_json(content))[:16], version=4))
    parts = (plain(label), *model.split("/", 1))
    path = PurePosixPath("data", *map(_component, parts), name)
    if samples:
        record["detailed_evaluation_results"] = {
            "format": "jsonl",
            "file_path": f"{path}_samples.jsonl",
            "hash_algorithm": "sha256",
            "checksum": sha256(b"".join(map(dump_row, samples))).hexdigest(),
            "total_rows": len(samples),
            "additional_details": {"not_judged": str(sum(left_out.values()))},
        }
        write_rows(out / f"{path}_samples.jsonl", samples)
    write_json(out / f"{path}.json", record)
    return out / f"{path}.json", len(samples), left_out


def _counted(row: Row) -> tuple[str, str, bool, str]:
    """The rate that an answer is counted in, what it should be, whether it is one of those that the
    rate is the share of, and why it is in none."""
    if row["perturbation"]:
        if row["changed"] is None:
            return "", "", False, "not compared"
        return f"{row['perturbation']}_fail_rate", "unchanged", bool(row["changed"]), ""
    if row["outcome"] not in JUDGED:
        return "", "", False, row["outcome"]
    measure, right = CLEAN[row["category"]]
    return measure, right, row["outcome"] in REFUSED, ""


def _component(name: str) -> str:
    """A name as one part of a path on any system."""
    return re.sub(r'[<>:"/\\|?*\x00-\x1f]', "_", name).rstrip(". ") or "_"
