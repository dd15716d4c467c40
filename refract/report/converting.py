"""Figures as PDF and PNG: the SVG that is written for the report, converted by CairoSVG."""

from __future__ import annotations

import io
from typing import Literal

from refract.core.errors import UsageError
from refract.report.charts import STYLE, Figure, svg

Format = Literal["pdf", "png", "svg"]
DOTS = 3  # a PNG's dots for each unit of the drawing: 288 dots an inch


def drawn(figure: Figure, format_: Format) -> bytes:
    """A figure as a file, of the same bytes each time.

    A PDF holds its text as text, in DejaVu Sans where that is installed; a PNG is on white. Raises
    :class:`UsageError` with what to install where CairoSVG or its library is missing.
    """
    text = svg(figure, STYLE).encode() + b"\n"
    if format_ == "svg":
        return text
    try:
        import cairocffi
        from cairosvg.parser import Tree
        from cairosvg.surface import PDFSurface, PNGSurface
    except (ImportError, OSError) as error:  # the second where the library cairo is missing
        raise UsageError(
            f"figures as {format_.upper()} need CairoSVG and the library cairo ({error}); run: "
            "pip install 'refract-eval[figures]' (and, on Debian, apt install libcairo2), or take "
            "--format svg"
        ) from None
    if format_ == "png":
        return bytes(PNGSurface.convert(text, scale=DOTS, background_color="white"))

    file = io.BytesIO()
    drawing = PDFSurface(Tree(bytestring=text), file, 96)
    # The time at which it was made would differ in every file.
    drawing.cairo.set_metadata(cairocffi.constants.PDF_METADATA_CREATE_DATE, "")
    drawing.finish()
    return file.getvalue()
