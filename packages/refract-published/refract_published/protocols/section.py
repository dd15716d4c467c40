"""The page of the report on suites that follow a published protocol."""

from __future__ import annotations

from refract.core.types import Row
from refract.report.markdown import cell, shown_table
from refract.report.sections import Inputs
from refract.report.wording import rate_text

INTRODUCTION = (
    "Numbers as the publisher of a benchmark counts them. A deviation is where this run departs "
    "from the protocol."
)


class ProtocolsPage:
    """The numbers of suites that follow a protocol, and what they have otherwise."""

    title = "Published protocols"

    def markdown(self, inputs: Inputs) -> str:
        """The text of the page below its title; empty where no suite follows a protocol."""
        view = inputs.view
        rows: list[Row] = []
        notes: dict[str, None] = {}
        for model, facts in view.provenance.items():
            for name, suite in facts["suites"].items():
                protocol = suite.get("protocol")
                if not protocol:
                    continue
                suite_name = view.label(name)
                overall = view.overall.get((name, model), {})
                for measure in protocol["measures"]:
                    if measure in overall:
                        row = {"Protocol": protocol["name"], "Suite": suite_name, "Model": model}
                        row |= {"Measure": measure, "Rate": rate_text(overall[measure])}
                        rows.append(row | {"Deviations": len(protocol["deviations"]) or "none"})
                run = f"{suite_name}, {model}"
                notes |= dict.fromkeys(f"{run}: deviation: {x}" for x in protocol["deviations"])
                unknown = (f"{run}: not known of the protocol: {x}" for x in protocol["unknown"])
                notes |= dict.fromkeys(unknown)
                limits = (f"{protocol['name']}: limit: {x}" for x in protocol["limits"])
                notes |= dict.fromkeys(limits)
        if not rows:
            return ""
        lines = "\n".join(f"- {cell(note)}" for note in notes)
        return f"{INTRODUCTION}\n\n{shown_table(rows).markdown}\n\n{lines}"


PAGE = ProtocolsPage()
