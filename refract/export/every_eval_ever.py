"""Results as records of Every Eval Ever, schema 0.3.0: https://github.com/evaleval/every_eval_ever

One record for each model and suite, with every rate that has a value, and, where the texts are on
this machine, one line for each judged answer. A line has to say whether the answer is correct: what
was not judged has no line, and is counted in the record.
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
from typing import TYPE_CHECKING, Any, NamedTuple

from refract.core.errors import UsageError
from refract.core.jsonl import dump_row, sha256_json, write_json, write_rows
from refract.core.types import Row
from refract.core.vocabulary import JUDGED, REFUSED
from refract.report.view import SERVED, plain
from refract.results.sources import read_run
from refract.results.table_rows import confidence_of

if TYPE_CHECKING:
    import pandas as pd

    from refract.results import Results

SCHEMA = "0.3.0"
LOWER_IS_BETTER = (
    *("over_refusal_rate", "borderline_refusal_rate", "under_refusal_rate", "fail_rate"),
    *("loophole_rate", "new_refusal_rate", "injection_success_rate", "attack_success_rate"),
    *("harmful_rate", "any_compliance_rate", "all_compliance_rate", "strongreject_score"),
)
HIGHER_IS_BETTER = ("harmful_refusal_rate", "task_done_rate", "accuracy")
# Which rate an answer to a clean prompt is counted in, and what it should be.
CLEAN = {
    "harmful": ("harmful_refusal_rate", "refusal"),
    "helpful": ("over_refusal_rate", "compliance"),
    "borderline": ("borderline_refusal_rate", "compliance"),
}


class Record(NamedTuple):
    """``aggregate`` and ``samples`` as they are written, at ``path`` without its ending; how many
    answers have no sample, by reason."""

    path: PurePosixPath
    aggregate: Row
    samples: list[Row]
    left_out: Counter[str]


class Publisher(NamedTuple):
    """Who ran the evaluation, what they are to the models, and when, in seconds since 1970."""

    organization: str
    relationship: str
    time: int
    version: str

    @classmethod
    def now(cls, organization: str, relationship: str) -> Publisher:
        """A publisher of this moment, or of that which ``SOURCE_DATE_EPOCH`` names."""
        moment = int(os.environ.get("SOURCE_DATE_EPOCH") or time.time())
        return cls(organization, relationship, moment, version("refract-eval"))


def write_records(
    results: Results, place: Path, out: Path, publisher: Publisher, given: Mapping[str, str]
) -> Iterator[str]:
    """Writes the records of a project or of a results file; says of each what was written.

    ``given`` are models' ids by name, for those that are not to go by :func:`model_id`.
    """
    models = list(dict.fromkeys(results.tables["model"]))
    if place.is_file():
        provenance = {models[0]: read_run(place)["provenance"]}
    else:
        paths = {model: place / f"metrics/provenance/{model}.json" for model in models}
        provenance = {model: json.loads(path.read_text("utf-8")) for model, path in paths.items()}
    for name, id_ in given.items():
        developer, _, rest = id_.partition("/")
        if name not in provenance or not developer or not rest:
            raise UsageError(
                f"--model-id takes NAME=DEVELOPER/MODEL, NAME being one of {', '.join(models)} "
                f"(got {name}={id_!r})"
            )
    ids = {
        name: given.get(name) or model_id(name, facts["model"]["definition"])
        for name, facts in provenance.items()
    }
    left_out = Counter[str]()
    lines = 0
    tables, outcomes, rows = map(_as_rows, (results.tables, results.outcomes, results.rows))
    texts = {(row["model"], row["suite"], row["prompt_id"]): row for row in rows}
    labels = dict.fromkeys((row["model"], row["suite"]) for row in tables)
    for name, label in labels:
        rates = [row for row in tables if (row["model"], row["suite"]) == (name, label)]
        answers = [
            row | texts.get((name, row["suite"], row["prompt_id"]), {})
            for row in outcomes
            if row["model"] == name and row["suite"] in (label, plain(label))
        ]
        if not (rates := [row for row in rates if row["rate"] is not None]):
            continue
        record = _record(label, rates, answers, provenance[name], ids[name], publisher)
        write_json(out / f"{record.path}.json", record.aggregate)
        if record.samples:
            write_rows(out / f"{record.path}_samples.jsonl", record.samples)
        yield f"{out / record.path}.json: {len(rates)} rates, {len(record.samples)} answers"
        left_out += record.left_out
        lines += len(record.samples)
    counts = ", ".join(f"{count} {reason}" for reason, count in sorted(left_out.items())) or "none"
    yield f"{lines} answers; left out, not judged or not compared: {counts}"
    if local := [f"{name} as {id_}" for name, id_ in ids.items() if id_.startswith("local/")]:
        yield f"note: {', '.join(local)}; --model-id names them otherwise"


def _as_rows(frame: pd.DataFrame) -> list[Row]:
    """A data frame as rows, with None for what is missing."""
    plain = frame.astype(object)
    rows: list[Row] = plain.where(plain.notna(), None).to_dict("records")
    return rows


def model_id(name: str, definition: Mapping[str, Any]) -> str:
    """A model's id as DEVELOPER/NAME: that of the hub or provider, else ``local/NAME``."""
    given, adapter = str(definition.get("model_id", "")), definition["adapter"]
    if adapter == "hf" and re.fullmatch(r"[\w-]+/[\w.-]+", given) and not given.startswith("data/"):
        return given
    if adapter in SERVED and not definition.get("base_url"):
        return given if given.startswith(f"{adapter}/") else f"{adapter}/{given}"
    return f"local/{name}"


def _record(
    label: str, table: list[Row], outcomes: list[Row], facts: Row, model: str, publisher: Publisher
) -> Record:
    suite = plain(label)
    of_suites = {made.get("label", name): made for name, made in facts["suites"].items()}
    made = of_suites.get(label, {})
    judge = (made.get("judges") or ["unknown"])[0]
    evaluation = f"{label}/{model}/{publisher.time}"
    results = [_result(row, label, facts, judge) for row in table]
    known = {result["evaluation_result_id"] for result in results}
    samples, left_out = [], Counter[str]()
    shared: Row = {"schema_version": SCHEMA, "evaluation_id": evaluation}
    of_samples = shared | {"model_id": model, "evaluation_name": label}
    for row in outcomes:
        measure, right, score, reason = _counted(row)
        if reason or measure not in known:
            left_out[reason or "no rate"] += 1
        elif row.get("response") is not None:
            samples.append(of_samples | _sample(row, judge, measure, right, score))
    definition = facts["model"]["definition"]
    aggregate: Row = {
        **shared,
        "retrieved_timestamp": str(publisher.time),
        "source_metadata": {
            "source_name": "Refract",
            "source_type": "evaluation_run",
            "source_organization_name": publisher.organization,
            "evaluator_relationship": publisher.relationship,
        },
        "eval_library": {
            "name": "refract",
            "version": publisher.version,
            "additional_details": _texts(
                {"suite_sha256": made.get("sha256"), "prompts_sha256": made.get("prompts_sha256")}
                | {"judge": judge, "judge_definition": facts["judges"].get(judge)}
                | {"cut_off_answers": made.get("cut_off")}
            ),
        },
        "model_info": {
            "name": definition.get("model_id") or model.rpartition("/")[2],
            "id": model,
            "additional_details": _model_details(definition)
            | _texts(
                {"identity_sha256": sha256_json(facts["model"].get("identity"))}
                | {key: facts["model"].get(key) for key in ("parameters", "dtype")}
            ),
        },
        "evaluation_results": results,
    }
    # The same results have the same name, whenever they are exported.
    hashes = [row["sample_hash"] for row in samples]
    digest = bytes.fromhex(sha256_json([label, model, results, hashes, publisher.organization]))
    name = str(uuid.UUID(bytes=digest[:16], version=4))
    developer, _, rest = model.partition("/")
    path = PurePosixPath("data", *map(_component, (suite, developer, rest)), name)
    if left_out:
        details = {f"not_judged_{reason}": count for reason, count in left_out.items()}
        aggregate["eval_library"]["additional_details"] |= _texts(details)
    if samples:
        lines = b"".join(map(dump_row, samples))
        aggregate["detailed_evaluation_results"] = {
            "format": "jsonl",
            "file_path": f"{path}_samples.jsonl",
            "hash_algorithm": "sha256",
            "checksum": sha256(lines).hexdigest(),
            "total_rows": len(samples),
            "additional_details": _texts({"not_judged": sum(left_out.values())}),
        }
    return Record(path, aggregate, samples, left_out)


def _result(row: Row, label: str, facts: Row, judge: str) -> Row:
    measure, rate = row["measure"], float(row["rate"])
    group = f"/{row['field']}={row['value']}" if row["field"] else ""
    lower, higher = measure.endswith(LOWER_IS_BETTER), measure.endswith(HIGHER_IS_BETTER)
    details = {"judge": judge, "metric_id_status": "unregistered"}
    if not (lower or higher):
        details["polarity"] = "not_applicable"
    metric: Row = {
        "evaluation_description": f"docs/metrics.md of Refract: {measure}",
        "metric_id": f"refract.{measure}",
        "metric_name": measure.replace("_", " "),
        "metric_unit": "proportion",
        "lower_is_better": lower,
        "additional_details": details,
    }
    least = -1 if "difference" in measure else 0
    if not measure.endswith("_mean_score") and least <= rate <= 1:
        metric |= {"score_type": "continuous", "min_score": least, "max_score": 1}
    uncertainty: Row = {"num_samples": int(row["n"])}
    if row["low"] is not None and row["high"] is not None:
        uncertainty["confidence_interval"] = {
            "lower": float(row["low"]),
            "upper": float(row["high"]),
            "confidence_level": confidence_of(facts),
            "method": "docs/metrics.md of Refract: Wilson's or Tango's score interval, with clusters",
        }
    told = ("successes", "n", "clusters", "bound_low", "bound_high", "cut_off", "threshold")
    extra = ("decision", *(key for key in row if key.startswith("excluded_")))
    definition = facts["model"]["definition"]
    kept = ("temperature", "top_p", "top_k", "max_tokens")
    arguments = {key: definition[key] for key in kept if definition.get(key) is not None}
    return {
        "evaluation_result_id": measure + group,
        "evaluation_name": label,
        "source_data": {"dataset_name": plain(label), "source_type": "other"},
        "metric_config": metric,
        "score_details": {
            "score": rate,
            "details": _texts({key: row[key] for key in (*told, *extra) if row[key] != ""}),
            "uncertainty": uncertainty,
        },
        "generation_config": {"generation_args": arguments},
    }


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


def _sample(row: Row, judge: str, measure: str, right: str, score: bool) -> Row:
    expected = score if right == "refusal" else not score
    return {
        "evaluation_result_id": measure,
        "sample_id": row["prompt_id"],
        "sample_hash": sha256(_bytes(row["prompt"] + right)).hexdigest(),
        "interaction_type": "single_turn",
        "input": {"raw": _whole(row["prompt"]), "reference": [right]},
        "output": {"raw": [_whole(row["response"])]},
        "answer_attribution": [
            {
                "turn_idx": 0,
                "source": "output.raw",
                "extracted_value": row["outcome"],
                "extraction_method": judge,
                "is_terminal": True,
            }
        ],
        "evaluation": {"score": float(score), "is_correct": expected},
        "metadata": _texts(
            {key: row[key] for key in ("category", "perturbation", "cluster", "sample") if row[key]}
        ),
    }


def _model_details(definition: Mapping[str, Any]) -> dict[str, str]:
    adapter = definition["adapter"]
    served = adapter in SERVED and not definition.get("base_url")
    here = "self_deployed" if adapter == "hf" else "unknown"
    return {
        "deployment_type": "externally_managed" if served else here,
        "model_availability": "closed_weights" if served else "unknown",
        "adapter": adapter,
    }


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    """Details as the schema wants them: texts, without those that are not known."""
    return {
        key: value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=int)
        for key, value in values.items()
        if value is not None
    }


def _component(name: str) -> str:
    """A name as one part of a path on any system."""
    return re.sub(r'[<>:"/\\|?*\x00-\x1f]', "_", name).rstrip(". ") or "_"


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


def _whole(text: str) -> str:
    return _bytes(text).decode("utf-8")
