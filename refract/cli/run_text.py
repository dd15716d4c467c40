"""What ``refract run`` prints of its results."""

from __future__ import annotations

from refract.cli.printing import print_table
from refract.core.showing import say
from refract.core.vocabulary import SAMPLES_FIELD
from refract.rates.key import NULL_DIFFERENCE, WITHOUT_PROVIDER
from refract.report.markdown import shown_table
from refract.report.view import View
from refract.report.wording import clusters_text, not_judged, percent, short_text

# Rates that follow from others.
HIDDEN = ("refusal_difference_to_pair", "under_refusal_rate")


def print_rates(view: View) -> None:
    """Prints the rates of a run over whole suites, and of its samples, with the note on their
    intervals."""
    groups = {
        "": "",
        SAMPLES_FIELD: ", k = {}",
        WITHOUT_PROVIDER.field: ", without refusals by the provider",
    }
    rows = []
    for rate in view.every:
        if rate.group.field not in groups or rate.name in HIDDEN:
            continue
        if rate.group == WITHOUT_PROVIDER and rate.measure.metric != "first":
            continue
        counts = rate.counts
        # No difference at all has an interval by the number of pairs alone.
        no_difference = rate.measure == NULL_DIFFERENCE and rate.value == 0
        n = counts.n if counts.successes is None else f"{counts.successes}/{counts.n}"
        row = {
            "suite": rate.key.label if len(view.suites) > 1 else "",
            "measure": rate.name + groups[rate.group.field].format(rate.group.value),
            f"rate [{percent(view.confidence)}]": "none" if no_difference else short_text(rate),
            "counts": f"{n}{clusters_text(rate)}",
            "not judged": not_judged(rate),
            "cut off": counts.cut_off or "",
        }
        rows.append(row)
    table = shown_table(rows)
    print_table(table.header, table.rows)
    say(view.interval_note)
