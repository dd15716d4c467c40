"""The report's files: all of them, or the page alone.

The page is one HTML file that needs no network and runs no text of a model's. Texts
enter it as JSON data alone, in which no ``<`` occurs, and its script draws them as
text nodes. A Content-Security-Policy that names the hashes of its one script and one
style sheet keeps anything else from running.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from refract.agreement.label_files import KEYS
from refract.core.environment import git, pinned_libraries
from refract.core.jsonl import write_bytes
from refract.core.tables import write_table
from refract.core.types import Row
from refract.core.vocabulary import JUDGED, REFUSED
from refract.report import page_tables
from refract.report.drawing import Figure, drawn, write_figures
from refract.report.figure_data import figures_of
from refract.report.first_table import first_table, threshold_table
from refract.report.label_draws import LabelDraw, label_draws
from refract.report.markdown import TEMPLATES
from refract.report.page_data import LONGEST, MOST, PageData, StoredAnswers, page_data
from refract.report.sections import Inputs, limits, report_pages, report_tables, templates_of
from refract.report.view import View, read_view

REPORT = Path("metrics/report.md")
PAGES = Path("metrics/report")
FIGURES = Path("metrics/figures")
PAGE = Path("data/report/report.html")
DATA = '<script id="data" type="application/json">'  # of the template; the answers follow it
# What decides the numbers, and the numbers.
WATCHED = ("constraints.txt", "data", "dvc.yaml", "metrics", "params.yaml", "refract", "stages")


def write_report(root: Path) -> str:
    """Writes ``metrics/report.md`` with the pages behind it, ``metrics/figures/`` and
    the page, once all of it has been computed: a failure leaves what was there. Says
    what it wrote."""
    view = read_view(root)
    data = page_data(StoredAnswers(root, view))
    inputs = Inputs(view, data, pinned_libraries(root / "constraints.txt"))
    pages, tables = report_pages(inputs), report_tables(inputs)
    figures = figures_of(view)
    page = _page(root, view, data=data, figures=figures)
    write_bytes(root / REPORT, [pages.pop("report").encode()])
    kept = set()
    for name, text in pages.items():
        kept.add(root / PAGES / f"{name}.md")
        write_bytes(root / PAGES / f"{name}.md", [text.encode()])
    for name, (columns, rows) in tables.items():
        kept.add(root / PAGES / f"{name}.csv")
        write_table(root / PAGES / f"{name}.csv", columns, rows)
    for path in set((root / PAGES).glob("*.*")) - kept:
        path.unlink()
    write_figures(figures, root / FIGURES)
    write_bytes(root / PAGE, page)
    return f"{REPORT}, {len(pages)} pages behind it, {len(figures)} figures, {PAGE}"


def write_page(
    root: Path, arithmetic_lines: Callable[[Path, Mapping[str, Row]], Sequence[str]]
) -> Path:
    """Writes the page alone, from the results that are computed, with lines on how
    models' answers were computed and certified."""
    view = read_view(root)
    data = page_data(StoredAnswers(root, view))
    arithmetic = arithmetic_lines(root, view.provenance)
    page = _page(root, view, data=data, figures=figures_of(view), arithmetic=arithmetic)
    write_bytes(root / PAGE, page)
    return root / PAGE


def _page(
    root: Path,
    view: View,
    data: PageData,
    figures: Sequence[Figure],
    arithmetic: Sequence[str] = (),
) -> Iterable[bytes]:
    commit = (git(root, "log", "-1", "--format=%h of %cs, “%s”") or "").strip()
    if commit and git(root, "--no-optional-locks", "status", "--porcelain", "--", *WATCHED):
        commit += ", with changes that are not committed"
    draws = label_draws(root, view, data)
    return page_parts(view, data, figures, commit=commit, arithmetic=arithmetic, draws=draws)


def page_parts(
    view: View,
    data: PageData,
    figures: Sequence[Figure],
    *,
    commit: str = "",
    arithmetic: Sequence[str] = (),
    draws: Sequence[LabelDraw] = (),
) -> Iterable[bytes]:
    """The whole page, UTF-8, in parts; ``commit`` is the one that is checked out, in
    words, ``arithmetic`` how many exact answers were certified, ``draws`` what it asks
    people to label."""
    scripts = ("texts.js", "labelling.js", "page.js")
    script = "".join((TEMPLATES / name).read_text("utf-8") for name in scripts)
    style = (TEMPLATES / "page.css").read_text("utf-8")
    hashes = []
    for source in (script, style):
        digest = base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
        hashes.append(f"'sha256-{digest}'")
    chosen = []
    if view.nearest:
        chosen = [view.nearest.reference, view.nearest.model]
    elif view.compared:
        chosen = [view.compared[0].a, view.compared[0].b]
    page = templates_of(view, markdown=False).get_template("page.html.j2")
    text = page.render(
        policy=(
            f"default-src 'none'; script-src {hashes[0]}; style-src {hashes[1]}; img-src data:; "
            "base-uri 'none'; form-action 'none'"
        ),
        script=script,
        style=style,
        figures=[(figure, _as_source(figure)) for figure in figures],
        data=data,
        first=first_table(view),
        results=page_tables.results(view),
        compared=page_tables.compared(view),
        chosen=list(zip(("first", "second"), ("Compare", "with"), chosen, strict=False)),
        link=page_tables.filter_link,
        models=limits(view)["models"],
        thresholds=threshold_table(view),
        commit=commit,
        arithmetic=arithmetic,
        draws=draws,
        keys=KEYS,
        refused=" ".join(REFUSED),
        judged=" ".join(JUDGED),
        LONGEST=LONGEST,
        MOST=MOST // 1_000_000,
    )
    # Names and texts are escaped, so that the template alone can have written this.
    before, start, after = text.partition(DATA)
    judges = {view.titles.suite(suite): judge for suite, judge in view.deciding.items()}
    answers = data.json(draws=draws, judges=judges, commands=page_tables.commands(view))
    return [(before + start).encode(), answers, after.encode()]


def _as_source(figure: Figure) -> str:
    """A figure as the source of an image, in which no text of it is an element of the page."""
    return f"data:image/svg+xml;base64,{base64.b64encode(drawn(figure, 'svg')).decode()}"
