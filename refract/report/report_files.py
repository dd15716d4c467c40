"""The report's files: all of them, or the page alone.

The page is one HTML file that needs no network and runs no text of a model's: the report and the
pages behind it, the figures with their numbers, and the answers. Texts of answers enter it as JSON
data alone, in which no ``<`` occurs, and its script draws them as text nodes. A
Content-Security-Policy that names the hashes of its one script and one style sheet keeps anything
else from running."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from refract.agreement.label_files import KEYS
from refract.core.environment import git, pinned_libraries
from refract.core.jsonl import write_bytes
from refract.core.showing import printable
from refract.core.vocabulary import JUDGED, REFUSED
from refract.report.drawing import Figure, write_figures
from refract.report.figure_data import figures_of
from refract.report.label_draws import LabelDraw, label_draws
from refract.report.markdown import TEMPLATES, as_html, html_environment
from refract.report.page_data import LONGEST, StoredAnswers, page_data
from refract.report.sections import Inputs, report_pages
from refract.report.view import read_view

REPORT = Path("metrics/report.md")
PAGES = Path("metrics/report")
FIGURES = Path("metrics/figures")
PAGE = Path("data/report/report.html")
DATA = '<script id="data" type="application/json">'  # of the template; the answers follow it
# What decides the numbers, and the numbers.
WATCHED = ("constraints.txt", "data", "dvc.yaml", "metrics", "params.yaml", "refract", "stages")
SCRIPTS = ("texts.js", "labelling.js", "page.js")


def _inputs(root: Path) -> Inputs:
    view = read_view(root)
    answers = page_data(StoredAnswers(root, view))
    return Inputs(view, answers, pinned_libraries(root / "constraints.txt"))


def write_report(root: Path) -> str:
    """Writes ``metrics/report.md`` with the pages behind it, ``metrics/figures/`` and the page,
    once all of it has been computed: a failure leaves what was there. Says what it wrote."""
    inputs = _inputs(root)
    figures = figures_of(inputs.view)
    pages = report_pages(inputs)
    page = _page(root, inputs, pages, figures)
    write_bytes(root / REPORT, [pages.pop("report").encode()])
    texts = {root / PAGES / f"{name}.md": text for name, text in pages.items()}
    for path, text in texts.items():
        write_bytes(path, [text.encode()])
    for path in set((root / PAGES).glob("*.*")) - texts.keys():
        path.unlink()
    write_figures(figures, root / FIGURES)
    write_bytes(root / PAGE, page)
    return f"{REPORT}, {len(pages)} pages behind it, {len(figures)} figures, {PAGE}"


def write_page(root: Path, note: str = "") -> Path:
    """Writes the page alone, from the results that are computed, with a note on them."""
    inputs = _inputs(root)
    figures = figures_of(inputs.view)
    write_bytes(root / PAGE, _page(root, inputs, report_pages(inputs), figures, note))
    return root / PAGE


def _page(
    root: Path,
    inputs: Inputs,
    pages: Mapping[str, str],
    figures: Sequence[Figure],
    note: str = "",
) -> Iterable[bytes]:
    commit = (
        git(root, "log", "-1", "--format=%h of %cs, %xE2%x80%x9C%s%xE2%x80%x9D") or ""
    ).strip()
    if commit and git(root, "--no-optional-locks", "status", "--porcelain", "--", *WATCHED):
        commit += ", with changes that are not committed"
    commit_note = (
        f"Made at commit {printable(commit)}." if commit else "Made outside a git repository."
    )
    draws = label_draws(root, inputs.view, inputs.answers)
    return page_parts(inputs, pages, figures, made=f"{commit_note} {note}".strip(), draws=draws)


def page_parts(
    inputs: Inputs,
    pages: Mapping[str, str],
    figures: Sequence[Figure],
    *,
    made: str = "",
    draws: Sequence[LabelDraw] = (),
) -> Iterable[bytes]:
    """The whole page, UTF-8, in parts. ``pages`` are the report's, in Markdown; ``made`` says
    at which commit it was made; ``draws`` are what it asks people to label."""
    from markupsafe import Markup

    script = "".join((TEMPLATES / name).read_text("utf-8") for name in SCRIPTS)
    style = (TEMPLATES / "page.css").read_text("utf-8")
    allowed = f"script-src {_hash(script)}; style-src {_hash(style)}; img-src data:"
    # As the source of an image no text of a figure is an element of the page.
    encoded = {figure.name: base64.b64encode(figure.svg).decode() for figure in figures}
    images = {name: f"data:image/svg+xml;base64,{svg}" for name, svg in encoded.items()}
    shown = {}
    for name, text in pages.items():
        title, _, body = text.partition("\n\n")
        shown[name] = title.removeprefix("# "), Markup(as_html(body, images))
    text = (
        html_environment()
        .get_template("page.html.j2")
        .render(
            policy=f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'",
            script=Markup(script),
            style=Markup(style),
            report=shown.pop("report")[1],
            pages=shown,
            figures=[(figure, images[figure.name]) for figure in figures],
            made=made,
            cut=inputs.answers.cut,
            longest=LONGEST,
            draws=draws,
            keys=KEYS,
        )
    )
    # Names and texts are escaped, so that the template alone can have written this.
    before, start, after = text.partition(DATA)
    answers = inputs.answers.json(draws=draws, refused=REFUSED, judged=JUDGED)
    return [(before + start).encode(), answers, after.encode()]


def _hash(source: str) -> str:
    """What a policy calls a script or a style sheet."""
    digest = hashlib.sha256(source.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
