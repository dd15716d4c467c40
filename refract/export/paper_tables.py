"""Tables for a paper, as texts: rates with intervals, differences of models, agreement with people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from refract.agreement.ledger import LEDGER, read_ledger
from refract.agreement.unseen_models import counting_lines
from refract.core.errors import UsageError
from refract.core.vocabulary import DISCRIMINATION
from refract.rates.rate import Interval, Rate
from refract.report.comparisons import number_of_tests
from refract.report.first_table import CUT_OFF, NOT_JUDGED, SEVERAL, mark_of
from refract.report.model_sizes import MEASURES
from refract.report.view import HEADLINES, View, check_names
from refract.report.wording import MISSING, p_text, percent, plain, rate_text, three

MARKS = {
    CUT_OFF: "a tenth of the answers or more was cut off, and judged by what was said",
    NOT_JUDGED: "some answers were not judged and are in no rate",
    SEVERAL: "cut off and not judged, or no interval",
}


class PaperTable(NamedTuple):
    """``header`` and ``rows`` of texts, ``notes`` below. The first ``names`` columns are names; rows are
    ``grouped`` by the first of them where that is set apart."""

    header: list[str]
    rows: list[list[str]]
    names: int
    notes: list[str]
    caption: str = ""
    label: str = "rates"
    grouped: bool = False


def _ends(interval: Interval, places: int, sign: str = "") -> str:
    return f"[{', '.join(three(end, sign, places) for end in interval)}]"


def _estimate(value: float | None, interval: Interval | None, places: int, sign: str = "") -> str:
    if value is None:
        return MISSING
    return three(value, sign, places) + (f" {_ends(interval, places, sign)}" if interval else "")


def paper_table(
    tables: Mapping[str, Sequence[Rate]],
    *,
    suites: Sequence[str] = (),
    measures: Sequence[str] = (),
    by: str | None = None,
    wide: bool = False,
    places: int = 2,
    level: str = "95 %",
    note: str = "",
) -> PaperTable:
    """The rates of some models, a column for each measure.

    ``suites`` and ``measures`` default to all suites and the refusal rates by category; with ``by``,
    a row for each value of that field. A cell holds rate, interval and a mark of what limits it, which
    the notes explain; ``wide`` ones hold counts and limits themselves. Raises :class:`UsageError` for
    what the tables do not have.
    """
    every = [rate for rates in tables.values() for rate in rates]
    labels = {label for rate in every for label in (rate.suite, plain(rate.suite))}
    check_names("--suite", suites, sorted(labels))
    check_names("--by", filter(None, [by]), sorted({r.group.field for r in every if r.group}))
    lines: dict[tuple[str, str, str], dict[str, Rate]] = {}
    for model, rates in tables.items():
        for rate in rates:
            wanted = not suites or rate.suite in suites or plain(rate.suite) in suites
            if wanted and rate.group.field == (by or ""):
                key = rate.suite, model, rate.group.value
                lines.setdefault(key, {})[rate.measure] = rate
    present = sorted({measure for rates in lines.values() for measure in rates})
    check_names("--measure", measures, present)
    columns = list(measures) or [measure for measure in HEADLINES if measure in present]
    if not columns:
        raise UsageError(f"name measures with --measure; there are: {', '.join(present)}")
    lines = {key: rates for key, rates in lines.items() if rates.keys() & {*columns}}
    order = list(dict.fromkeys(suite for suite, *_ in lines))
    several = len(order) > 1
    rows, shown = [], []
    for key in sorted(lines, key=lambda key: order.index(key[0])):
        cells = [lines[key].get(measure) for measure in columns]
        names = [*([plain(key[0])] if several else []), key[1], *([key[2]] if by else [])]
        shown += [(key[1], plain(key[0]), rate) for rate in cells if rate]
        texts = (
            f"{_estimate(r.value, r.shown, places)} {mark_of(r)}" if r else MISSING for r in cells
        )
        rows.append([*names, *(map(rate_text, cells) if wide else map(str.rstrip, texts))])
    header = [*(["Suite"] if several else []), "Model", *([by] if by else [])]
    titles = [MEASURES.get(m, m.replace("_", " ")).capitalize() for m in columns]
    notes = [*([] if wide else mark_notes(shown)), *_samples(order), *filter(None, [note])]
    suite = "" if several else f" Suite: {plain(order[0])}."
    caption = f"Rates with {level} intervals{' and counts' if wide else ''}.{suite}"
    return PaperTable([*header, *titles], rows, len(header), notes, caption, grouped=several)


def mark_notes(shown: Iterable[tuple[str, str, Rate]]) -> list[str]:
    """What the marks at some rates stand for, with the counts by model and suite, as they are named."""
    marked: dict[str, dict[str, list[Rate]]] = {}
    for model, suite, rate in shown:
        marked.setdefault(mark_of(rate), {}).setdefault(f"{model} on {suite}", []).append(rate)
    notes = []
    for mark, about in MARKS.items():
        said = []
        for name, of in marked.get(mark, {}).items():
            n, cut_off, unjudged = (sum(x) for x in zip(*map(_counts, of), strict=True))
            texts = [f"{cut_off} of {n} cut off"] if mark != NOT_JUDGED and cut_off else []
            texts += (
                [f"{unjudged} of {n + unjudged} not judged"] if mark != CUT_OFF and unjudged else []
            )
            said.append(f"{name} {', '.join(texts) or 'no interval'}")
        notes += [f"{mark} {about}: {'; '.join(said)}."] if said else []
    return notes


def _counts(rate: Rate) -> tuple[int, int, int]:
    return rate.counts.n, rate.counts.cut_off or 0, rate.counts.unjudged


def _samples(labels: Iterable[str]) -> list[str]:
    """What the labels of suites say of samples."""
    return [f"{plain(x)}: {x.partition('[')[2].removesuffix(']')}." for x in labels if "[" in x]


def interval_table(
    view: View, measures: Sequence[str], label: str, caption: str, places: int
) -> PaperTable:
    """A line for each suite, model and measure, of every judge, with both intervals."""
    rows, shown = [], []
    for suite, model, measure in product(view.deciding, view.models, measures):
        for judge in ("", *(name for name in view.judges if name != view.deciding[suite])):
            overall = view.overall.get((suite, model), {})
            if rate := overall.get(f"{judge}_{measure}" if judge else measure):
                names = view.titles.model(model), view.titles.suite(plain(suite))
                shown.append((*names, rate))
                title = MEASURES.get(measure, measure.replace("_", " "))
                rows.append(
                    [
                        *reversed(names),
                        title + (f" ({judge})" if judge else ""),
                        str(rate.counts.n),
                        f"{_estimate(rate.value, rate.interval, places)} {mark_of(rate)}".rstrip(),
                        _ends(rate.with_judge.interval, places) if rate.with_judge else MISSING,
                        _ends(rate.these, places) if rate.these else MISSING,
                    ]
                )
    header = ["Suite", "Model", "Measure", "Answers", "Rate, prompts", "Prompts and judge"]
    header.append("These prompts")
    if not any(
        rate.these for *_, rate in shown
    ):  # one answer to each, which has no noise of its own
        header, rows = header[:-1], [row[:-1] for row in rows]
    about = [*_samples(dict.fromkeys(rate.suite for *_, rate in shown)), view.interval_note]
    notes = [*mark_notes(shown), *filter(None, about)]
    caption += f", with {percent(view.confidence)} intervals of prompts, and of prompts and judge."
    return PaperTable(header, rows, 3, notes, caption, label, True)


def difference_table(view: View, places: int) -> PaperTable:
    """The models compared on the prompts that both answered: with the reference, and of neighbours."""
    rows = [
        [
            f"{view.titles.model(pair.first)} − {view.titles.model(pair.second)}",
            view.titles.suite(plain(x.suite)),
            x.category.replace("_", " ") + (" refused" if x.category not in DISCRIMINATION else ""),
            str(x.n),
            *(_estimate(share, None, places) for share in (x.second, x.first)),
            _estimate(x.value, x.shown, places, "+"),
            p_text(x.p_adjusted),
        ]
        for pair in view.near_compared
        if (x := pair.difference).n
    ]
    header = ["Models", "Suite", "Category", "Prompts", "First", "Second", "Difference", "p"]
    caption = f"Models compared on the same prompts, with {percent(view.confidence)} intervals."
    tests = view.tests or number_of_tests(view.compared)
    notes = [f"p is corrected for {tests} tests (Holm)."] if tests else []
    return PaperTable(header, rows, 3, notes, caption, "differences", True)


def agreement_table(view: View, places: int) -> PaperTable:
    """How far each judge is from people on models whose answers had no part in making it."""
    entries = read_ledger(LEDGER)
    rows = [
        [
            *(name, line.source, line.model, str(line.n)),
            *(_estimate(share, None, places) for share in (line.human_rate, line.judge_rate)),
            _estimate(line.gap, _interval(line.gap_low, line.gap_high), places, "+"),
            _estimate(line.kappa, _interval(line.kappa_low, line.kappa_high), places),
        ]
        for name in dict.fromkeys(view.deciding.values())
        for line in counting_lines(
            entries, str(view.judges[name]["kind"]), str(view.judges[name]["version"])
        )
    ]
    header = ["Judge", "Source", "Model", "Answers", "People", "Judge's", "Gap", "κ"]
    caption = "Refused by people and by the judge, on models kept apart from it; 95 % intervals."
    return PaperTable(header, rows, 3, [], caption, "agreement", True)


def _interval(low: float | None, high: float | None) -> Interval | None:
    return None if low is None or high is None else Interval(low, high)
