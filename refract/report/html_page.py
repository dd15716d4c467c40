"""The page that people look at: one HTML file that needs no network and runs no text of a model's.

Texts enter it as JSON data alone, in which no ``<`` occurs, and its script draws them as text nodes.
A Content-Security-Policy that names the hashes of its one script and one style sheet keeps anything
else from running.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence

from refract.core.vocabulary import JUDGED, REFUSED
from refract.report.drawing import Figure, inline_svg
from refract.report.markdown import TEMPLATES
from refract.report.page_data import LONGEST, MOST, PageData
from refract.report.sections import templates_of
from refract.report.view import View

DATA = '<script id="data" type="application/json">'  # of the template; the answers follow it


def page_parts(
    view: View, data: PageData, figures: Sequence[Figure], commit: str = ""
) -> Iterable[bytes]:
    """The whole page, UTF-8, in parts; ``commit`` is the one that is checked out, in words."""
    names = ("texts.js", "page.js", "page.css")
    texts, script, style = ((TEMPLATES / name).read_text("utf-8") for name in names)
    script = texts + script
    page = templates_of(view, markdown=False).get_template("page.html.j2")
    text = page.render(
        policy=(
            f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
            "base-uri 'none'; form-action 'none'"
        ),
        script=script,
        style=style,
        figures=[(figure, inline_svg(figure)) for figure in figures],
        data=data,
        commit=commit,
        refused=" ".join(REFUSED),
        judged=" ".join(JUDGED),
        LONGEST=LONGEST,
        MOST=MOST // 1_000_000,
    )
    # Names and texts are escaped, so that the template alone can have written this.
    before, start, after = text.partition(DATA)
    return [(before + start).encode(), data.json(), after.encode()]


def _hash(source: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}"
