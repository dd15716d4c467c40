"""A paper's appendix of one project: what ``refract appendix`` writes, all of it from its results."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from jinja2 import FileSystemLoader

from refract.export.bundle import find_bundle, write_bundle
from refract.report.markdown import environment
from refract.report.view import View, read_view
from refract.results.current import current_note, named
from refract.results.sources import ResultsError, read_side

TEMPLATES = Path(__file__).parent / "templates"


def write_appendix(root: Path, out: Path) -> Iterator[str]:
    """Writes the appendix into a folder; says of each part what was written.

    Raises :class:`ResultsError` where results are missing or not what they were made of.
    """
    side = read_side(root)
    made = {model: result.provenance or {} for model, result in side.results.items()}
    if bare := [model for model, facts in made.items() if "files" not in facts]:
        raise ResultsError(
            f"no provenance of {named(bare)} in metrics/provenance/, or one of an earlier version, so "
            "that nothing says what the numbers were made of; run: dvc repro"
        )
    if side.reasons:
        yield f"note: {current_note(side.reasons)}"
    view = read_view(root)
    yield from _bundle(root, view, out / "bundle")


def _bundle(root: Path, view: View, out: Path) -> Iterator[str]:
    bundle = find_bundle(root, view.provenance)
    of = {"models": view.models, "suites": [x["label"] for x in view.suites]}
    readme = _rendered(view, "bundle.md.j2", **of, **bundle._asdict())
    sha256 = write_bundle(root, bundle, readme, out)
    yield f"{out}: {len(bundle.paths)} files, {bundle.answers:,} answers; SHA256SUMS has {sha256}"
    for suite, why in bundle.left_out.items():
        yield f"{suite} is there by its outcomes alone: {why}"


def _rendered(view: View, name: str, **given: object) -> str:
    templates = environment(view.titles, markdown=True)
    templates.loader = FileSystemLoader(TEMPLATES)
    return templates.get_template(name).render(**given)
