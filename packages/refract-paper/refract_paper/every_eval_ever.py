"""Results as records of Every Eval Ever, schema 0.3.0: https://github.com/evaleval/every_eval_ever

One record for each model and suite, with every rate that has a value."""

from __future__ import annotations

import json
import os
import re
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from pydantic import Field

from refract.core.errors import UsageError
from refract.core.jsonl import sha256_json, write_json
from refract.core.settings import Settings
from refract.core.types import Row
from refract.export import Export
from refract.report.sentences import SERVED
from refract.results.table_rows import confidence_of, rate_from_row

SCHEMA = "0.3.0"
# Of measures of published protocols, which direction is better.
PROTOCOL_BETTER = {
    "strongreject_score": "lower",
    "inspect_strong_reject": "lower",
    "jailbreak_rate": "lower",
    "accuracy": "higher",
}
METHOD = "docs/metrics.md of Refract: Wilson's or Tango's score interval, with clusters"
SAMPLING = ("temperature", "top_p", "top_k", "max_tokens")


class RecordSettings(Settings):
    """Who ran the evaluation and what they are to the models, and models' ids
    (``DEVELOPER/MODEL``) by name."""

    organization: str
    relationship: Literal["first_party", "third_party", "collaborative", "other"] = "other"
    model_ids: dict[str, str] = Field(default_factory=dict)


def write_records(export: Export) -> Iterator[str]:
    """Writes the records of a project or of a results file.

    A model goes by :func:`model_id` where no other id is given. The moment is now, or that which
    ``SOURCE_DATE_EPOCH`` names."""
    settings, results = export.settings(RecordSettings), export.results
    provenance, ids = results.provenance, {}
    for name, facts in provenance.items():
        ids[name] = settings.model_ids.get(name) or model_id(name, facts["model"]["definition"])
    for name, id_ in settings.model_ids.items():
        if name not in provenance or not all(id_.partition("/")):
            raise UsageError(
                f"--set model_ids takes {{NAME: DEVELOPER/MODEL}}, NAME being one of "
                f"{', '.join(provenance)} (got {name}: {id_!r})"
            )
    moment = os.environ.get("SOURCE_DATE_EPOCH") or str(int(time.time()))
    with_rate = results.tables.dropna(subset="rate")
    for (name, suite), rates in with_rate.groupby(["model", "suite"], sort=False):
        cells = rates.astype(object)
        evaluated = Evaluated(
            model=ids[name],
            suite=suite,
            moment=moment,
            publisher=settings,
            facts=provenance[name],
            rates=cells.where(cells.notna(), None).to_dict("records"),
        )
        yield f"{evaluated.write(export.out)}: {len(rates)} rates"
    local = [f"{name} as {id_}" for name, id_ in ids.items() if id_.startswith("local/")]
    if local:
        yield f"note: {', '.join(local)}; --set model_ids names them otherwise"


def model_id(name: str, definition: Mapping[str, Any]) -> str:
    """A model's id as DEVELOPER/NAME: that of the hub or provider, else ``local/NAME``."""
    stated = str(definition.get("model_id", ""))
    adapter = definition["adapter"]
    if (
        adapter == "hf"
        and re.fullmatch(r"[\w-]+/[\w.-]+", stated)
        and not stated.startswith("data/")
    ):
        return stated
    if _is_served(definition):
        return stated if stated.startswith(f"{adapter}/") else f"{adapter}/{stated}"
    return f"local/{name}"


def _is_served(definition: Mapping[str, Any]) -> bool:
    """Whether a provider computes the answers."""
    return definition["adapter"] in SERVED and not definition.get("base_url")


def _details(values: Mapping[str, Any]) -> dict[str, str]:
    """Details as the schema wants them: texts, without those that are not known."""
    texts = {}
    for key, value in values.items():
        if value is not None and value != "":
            text = isinstance(value, str)
            texts[key] = value if text else json.dumps(value, sort_keys=True, default=int)
    return texts


@dataclass(frozen=True)
class Evaluated:
    """One model on one suite: what a record says."""

    model: str
    suite: str
    moment: str
    publisher: RecordSettings
    facts: Row
    rates: list[Row]

    @property
    def about(self) -> Row:
        """What provenance says of the suite."""
        return dict(self.facts["suites"].get(self.suite, {}))

    @property
    def judge(self) -> str:
        """The judge that decides refusal."""
        return str((self.about.get("judges") or ["unknown"])[0])

    @property
    def id(self) -> str:
        """The name of the evaluation."""
        return f"{self.suite}/{self.model}/{self.moment}"

    def write(self, out: Path) -> Path:
        """Writes the record, and returns where."""
        record = self.record()
        # The same results have the same name, whenever they are exported.
        results = record["evaluation_results"]
        content = [self.suite, self.model, results, self.publisher.organization]
        name = str(uuid.UUID(bytes=bytes.fromhex(sha256_json(content))[:16], version=4))
        folder = PurePosixPath("data", *map(_component, (self.suite, *self.model.split("/", 1))))
        path = out / folder / f"{name}.json"
        write_json(path, record)
        return path

    def record(self) -> Row:
        model, suite = self.facts["model"], self.about
        definition = model["definition"]
        served = _is_served(definition)
        deployed = "self_deployed" if definition["adapter"] == "hf" else "unknown"
        details = {
            "suite_sha256": suite.get("sha256"),
            "prompts_sha256": suite.get("prompts_sha256"),
            "judge": self.judge,
            "judge_definition": self.facts["judges"].get(self.judge),
            "cut_off_answers": suite.get("cut_off"),
        }
        about = {
            "deployment_type": "externally_managed" if served else deployed,
            "model_availability": "closed_weights" if served else "unknown",
            "adapter": definition["adapter"],
            "identity_sha256": sha256_json(model.get("identity")),
            "parameters": model.get("parameters"),
            "dtype": model.get("dtype"),
        }
        name = definition.get("model_id") or self.model.rpartition("/")[2]
        return {
            "schema_version": SCHEMA,
            "evaluation_id": self.id,
            "retrieved_timestamp": self.moment,
            "source_metadata": {
                "source_name": "Refract",
                "source_type": "evaluation_run",
                "source_organization_name": self.publisher.organization,
                "evaluator_relationship": self.publisher.relationship,
            },
            "eval_library": {
                "name": "refract",
                "version": version("refract-eval"),
                "additional_details": _details(details),
            },
            "model_info": {"name": name, "id": self.model, "additional_details": _details(about)},
            "evaluation_results": list(map(self.result, self.rates)),
        }

    def result(self, row: Row) -> Row:
        """One rate of the record."""
        key = rate_from_row(row).key
        measure = key.name
        better = key.measure.better or PROTOCOL_BETTER.get(measure)
        group = f"/{row['field']}={row['value']}" if row["field"] else ""
        metric = {
            "evaluation_description": f"docs/metrics.md of Refract: {measure}",
            "metric_id": f"refract.{measure}",
            "metric_name": measure.replace("_", " "),
            "metric_unit": "proportion",
            "lower_is_better": better == "lower",
        }
        low, high = key.measure.low, key.measure.high
        if low is not None and high is not None and low <= row["rate"] <= high:
            metric |= {"score_type": "continuous", "min_score": low, "max_score": high}
        metric["additional_details"] = _details(
            {
                "judge": key.judge or self.judge,
                "metric_id_status": "unregistered",
                "polarity": None if better else "not_applicable",
            }
        )
        details = {key: value for key, value in row.items() if key.startswith("excluded_")}
        columns = ("successes", "n", "clusters", "bound_low", "bound_high", "cut_off")
        for column in (*columns, "threshold_kind", "threshold", "decision"):
            details[column] = row.get(column)
        uncertainty: Row = {"num_samples": int(row["n"])}
        if row["low"] is not None and row["high"] is not None:
            uncertainty["confidence_interval"] = {
                "lower": row["low"],
                "upper": row["high"],
                "confidence_level": confidence_of(self.facts),
                "method": METHOD,
            }
        definition = self.facts["model"]["definition"]
        arguments = {key: definition[key] for key in SAMPLING if definition.get(key) is not None}
        return {
            "evaluation_result_id": f"{measure}{group}",
            "evaluation_name": self.suite,
            "source_data": {"dataset_name": self.suite, "source_type": "other"},
            "metric_config": metric,
            "score_details": {
                "score": row["rate"],
                "details": _details(details),
                "uncertainty": uncertainty,
            },
            "generation_config": {"generation_args": arguments},
        }


def _component(name: str) -> str:
    """A name as one part of a path on any system."""
    return re.sub(r'[<>:"/\\|?*\x00-\x1f]', "_", name).rstrip(". ") or "_"
