"""The pages behind the report, ``metrics/report/*.md``, and the tables beside them."""

from __future__ import annotations

from collections.abc import Mapping

from refract.core.types import Row
from refract.report.answers import PageData
from refract.report.comparisons import (
    COLUMNS,
    comparison_section,
    field_comparison_section,
    table_rows,
)
from refract.report.corrected import corrected_section
from refract.report.inputs import Inputs
from refract.report.markdown import markdown_table, percent
from refract.report.over_refusal import over_refusal_section
from refract.report.protocols import HEADER, NOTE, protocol_notes, protocol_rows
from refract.report.scaling import scaling_section
from refract.report.sections import (
    field_tables,
    pair_tables,
    provenance_tables,
    robustness_tables,
    sample_tables,
    without_cut_off,
)


def detail_pages(
    found: Inputs, pins: Mapping[str, str], data: PageData
) -> dict[str, tuple[str, str]]:
    """The pages that have something in them: title and text (Markdown) by name.

    ``pins`` are the versions that a setup installs, ``data`` the rows of the page with their texts.
    """
    level = percent(found.confidence)
    protocols = protocol_rows(found.tables, found.provenance)
    pages = {
        "protocols": (
            "Published protocols",
            [
                NOTE,
                markdown_table(HEADER, protocols),
                "\n".join(protocol_notes(found.provenance)),
            ]
            if protocols
            else [],
        ),
        "over_refusal": ("Over-refused prompts", [over_refusal_section(data)]),
        "fields": (
            "By field",
            [
                field_comparison_section(found.by_field, found.confidence),
                field_tables(found.tables),
            ],
        ),
        "comparisons": (
            "Models compared",
            [
                comparison_section(
                    list(found.tables), found.compared, found.reference, found.confidence
                )
            ],
        ),
        "robustness": (
            "Perturbations and injections",
            [robustness_tables(found.tables)],
        ),
        "pairs": (
            "Paired prompts",
            [
                "Refusal of each prompt minus refusal of the prompt it is paired with, over pairs "
                f"where both answers were judged, with a {level} interval for paired shares in "
                "clusters of one request. p: exact, of whole suites, corrected for all of this page "
                "(Holm); groups have none.",
                pair_tables(found.tables),
            ],
        ),
        "samples": (
            "Several samples per prompt",
            [
                "*any*: the chance that one of k samples does it at least (of harmful prompts "
                "compliance: attack success at k), *all*: that every one does. *refusal_spread*: the "
                "mean standard deviation of refusal within a prompt.",
                sampled,
            ]
            if (sampled := sample_tables(found.tables))
            else [],
        ),
        "cut_off": ("Without answers that were cut off", [without_cut_off(found.tables)]),
        "judges": (
            "The judges' errors, and rates from human labels",
            [
                corrected_section(
                    found.tables,
                    found.provenance,
                    found.agreement,
                    found.confusion,
                    found.entries,
                    found.compared,
                )
            ],
        ),
        "scaling": (
            "Scaling",
            [scaling_section(found.tables, found.sizes, found.series, found.confidence)],
        ),
        "provenance": ("Provenance", [provenance_tables(found.provenance, pins)]),
    }
    return {
        name: (title, "\n\n".join([f"# {title}", BACK, *filter(None, parts)]) + "\n")
        for name, (title, parts) in pages.items()
        if any(parts)
    }


BACK = "A part of the [report](../report.md)."


def detail_tables(found: Inputs) -> dict[str, tuple[tuple[str, ...], list[Row]]]:
    """The tables beside the pages: columns and rows by name."""
    return {
        "comparisons": (COLUMNS, table_rows(found.compared, "p_holm")),
        "fields": (COLUMNS, table_rows(found.by_field, "p_fdr")),
    }
