"""A paper's appendix of one project: what ``refract appendix`` writes, all of it from its results."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jinja2 import FileSystemLoader, pass_context
from markupsafe import Markup

from refract.core.jsonl import write_bytes
from refract.core.params import read_yaml
from refract.core.progress import ran_file, read_object
from refract.core.vocabulary import DISCRIMINATION
from refract.export.bundle import find_bundle, write_bundle
from refract.export.latex import as_latex, as_markdown, latex, prose, typewriter
from refract.export.paper_tables import agreement_table, difference_table, interval_table
from refract.judges import published_judges
from refract.report.drawing import drawn
from refract.report.figure_data import figures_of
from refract.report.markdown import blanked, environment, tidy
from refract.report.view import HEADLINES, View, read_view
from refract.report.wording import plain
from refract.results.current import current_note, named
from refract.results.sources import ResultsError, Side, read_side, stand_ins
from refract.suites.importing import PUBLISHED
from refract.suites.protocols import CATALOGUE as PROTOCOLS

TEMPLATES = Path(__file__).parent / "templates"
REFERENCES = Path(__file__).with_name("references.yaml")
IMPORTED = re.compile(r"^Made by `refract import-suite (\w+)`", re.M)  # in a suite's card
# Settings that the methods state in words of their own.
SAID = {
    *("adapter", "adapter_version", "model", "temperature", "top_p", "top_k", "max_tokens"),
    *("arithmetic", "system_prompt", "seed", "sha256", "commit", "kind", "version"),
}
Facts = Mapping[str, Any]


def write_appendix(root: Path, out: Path, places: int = 2) -> Iterator[str]:
    """Writes the appendix into a folder; says of each part what was written.

    Raises :class:`ResultsError` where results are missing or not what they were made of.
    """
    side = read_side(root)
    if bare := [x for x, of in side.results.items() if "files" not in (of.provenance or {})]:
        raise ResultsError(f"no provenance of {named(bare)} in metrics/provenance/; run: dvc repro")
    stale = f"note: {current_note(side.reasons)}" if side.reasons else ""
    if stale:
        yield stale
    view = read_view(root)
    bundle = find_bundle(root, view.provenance)
    rates, discrimination = (
        interval_table(view, measures, name, caption, places)
        for name, measures, caption in (
            ("rates", [*HEADLINES], "Refusal by category"),
            ("discrimination", [*DISCRIMINATION], "Harmful minus other requests refused"),
        )
    )
    every = (rates, discrimination, difference_table(view, places), agreement_table(view, places))
    tables = {table.label: table for table in every if table.rows}
    facts = facts_of(root, view, side) | bundle._asdict() | {"tables": tables, "stale": stale}
    cited = dict.fromkeys(("nist2026ai8002", "ghosh2026evaluationcards"))
    readme = rendered(view, "bundle.md.j2", facts, cited)
    facts["sums"] = write_bundle(root, bundle, readme, out / "bundle")
    texts = {
        "methods.md": rendered(view, "methods.j2", facts, cited),
        "methods.tex": rendered(view, "methods.j2", facts, cited, tex=True),
        "checklist.md": rendered(view, "checklist.md.j2", facts, cited),
    }
    for name, table in tables.items():
        texts |= {f"tables/{name}.md": as_markdown(table), f"tables/{name}.tex": as_latex(table)}
    texts["references.bib"] = bibliography(cited, facts)
    content = {name: text.encode("utf-8", "backslashreplace") for name, text in texts.items()}
    content |= {f"figures/{x.name}.pdf": drawn(x, "pdf", None) for x in figures_of(view)}
    for name, data in content.items():
        write_bytes(out / name, [data])
        yield f"{out / name}"
    yield (
        f"{out / 'bundle'}: {len(bundle.paths)} files, {bundle.answers:,} answers; SHA256SUMS has "
        f"{facts['sums']}"
    )
    for suite, why in bundle.left_out.items():
        yield f"{suite} is there by its outcomes alone: {why}"


@cache
def references() -> dict[str, dict[str, Any]]:
    """The fields of BibTeX of all that can be cited, by key."""
    return dict(read_yaml(REFERENCES))


def reference_keys(name: str, text: str = "") -> list[str]:
    """The keys of what a thing is by: those that name it, or the number of arXiv in its description."""
    numbers = re.findall(r"arXiv:? ?(\d{4}\.\d{4,5})", text)
    entries = references().items()
    return [x for x, of in entries if name in of.get("of", ()) or of.get("eprint") in numbers]


def _catalogued(path: Path, name: str, field: str = "of") -> list[str]:
    entry = read_yaml(path).get(name)
    return reference_keys(name, str(entry[field])) if entry else []


def _suite_keys(root: Path, definition: Facts) -> list[str]:
    """What a suite of a protocol is by, and one that was imported, as its card says."""
    protocol = (definition.get("protocol") or "").partition("@")[0]
    card = (root / definition["file"]).with_suffix(".md")
    made = IMPORTED.search(card.read_text("utf-8")) if card.is_file() else None
    imported = _catalogued(PUBLISHED, made[1], "title") if made else []
    return list(dict.fromkeys([*_catalogued(PROTOCOLS, protocol), *imported]))


def settings_text(given: Facts) -> str:
    """Settings that are set, but for those that the methods say otherwise: ``rate 0.05``."""
    kept = {key: x for key, x in given.items() if key not in SAID and not isinstance(x, Mapping)}
    texts = (
        f"{key} {x!r}".replace("'", "") for key, x in kept.items() if x not in (None, False, [])
    )
    return ", ".join(texts)


def facts_of(root: Path, view: View, side: Side) -> dict[str, Any]:
    """What the templates state beside the view, read from the results and from what ran."""
    ran = [read_object(root / ran_file(model)) for model in view.models]
    runs = [run for of in ran for run in of.get("runs", ())]
    judged = [of["judged"] for of in ran if "judged" in of]
    codes = [of["code"] for of in (*runs, *judged) if of.get("code")]
    machines = [run.get("machine", {}) for run in runs]
    clean = [rate.counts for (_, _), x in view.overall.items() if (rate := x.get("refusal_rate"))]
    first = next(iter(side.results.values())).outcomes
    kinds: dict[str, list[str]] = {}
    for row in first:
        if not row["perturbation"] and row["sample"] in ("", "1"):
            kinds.setdefault(row["suite"], []).append(row["category"])
    catalogue = published_judges().CATALOGUE
    return {
        "view": view,
        "suites": [
            {
                "facts": of,
                "cites": _suite_keys(root, of["definition"]),
                "kinds": kinds.get(plain(of["label"]), []),
                "card": (root / of["definition"]["file"]).with_suffix(".md").is_file(),
            }
            for of in view.suites
        ],
        "versions": sorted({code["refract"] for code in codes}) or [version("refract-eval")],
        "commits": sorted({code["commit"][:12] for code in codes if code.get("commit")}),
        "dirty": any(code.get("dirty") for code in codes),
        "answered": _days(run.get("started_at") for run in runs),
        "judged": _days(of.get("judged_at") for of in judged),
        "libraries": sorted(
            {f"{x} {of}" for y in (*runs, *judged) for x, of in y.get("libraries", {}).items()}
        ),
        "machines": sorted(
            {str(x) for y in machines for x in (y.get("processor"), y.get("accelerator")) if x}
        ),
        "judge_keys": {
            name: _catalogued(catalogue, str(judge.get("name", name)))
            or reference_keys(judge["kind"])
            for name, judge in view.judges.items()
        },
        "judge_error": any(rate.with_judge for rate in view.every),
        "clean": sum(of.n + of.unjudged for of in clean),
        "cut_off": sum(of.cut_off or 0 for of in clean),
        "unjudged": sum(of.unjudged for of in clean),
        "clustered": any(of.clusters and of.clusters < of.n for of in clean),
        "labels": sum(r.counts.labels.used for r in view.every if r.counts.labels and not r.group),
        "stand_ins": stand_ins(view.provenance),
    }


def _days(moments: Iterable[str | None]) -> list[str]:
    """The first day and the last."""
    days = sorted({moment[:10] for moment in moments if moment})
    return list(dict.fromkeys([*days[:1], *days[-1:]]))


def rendered(view: View, name: str, facts: Facts, cited: dict[str, None], tex: bool = False) -> str:
    """A template as Markdown, or as LaTeX, in which every value is inert; ``cited`` gets the keys."""
    templates = environment(view.titles, markdown=True)
    templates.loader = FileSystemLoader(TEMPLATES)
    if tex:
        templates.finalize = lambda x: x if isinstance(x, Markup) else Markup(prose(str(x)))

    @pass_context  # so that what a template does not reach is not cited while it is compiled
    def cite(_: object, key: str) -> Markup:
        cited[key] = None
        return Markup(rf"\cite{{{key}}}" if tex else f"[{key}]")

    def code(text: object) -> Markup:
        shown = blanked(text).replace("`", "'")
        return Markup(typewriter(shown) if tex else f"`{shown}`")

    def head(text: str, level: str = "##") -> Markup:
        return Markup(rf"\paragraph{{{text}.}}" if tex else f"{level} {text}")

    templates.filters |= {"cite": cite, "code": code, "head": head}
    templates.filters |= {"reference": reference_keys, "settings": settings_text}
    text = tidy(templates.get_template(name).render(**facts))
    # Names and hashes of any length must fit a line.
    return f"{{\\sloppy\\emergencystretch=4em\n{text}\\par}}\n" if tex else f"{text}\n"


def bibliography(cited: Mapping[str, None], facts: Facts) -> str:
    """What was cited as BibTeX, and an entry for each suite of the project's own."""
    entries = {key: dict(references()[key]) for key in sorted(cited)}
    for suite in facts["suites"]:
        definition, sha256 = suite["facts"]["definition"], suite["facts"]["sha256"]
        if not suite["cites"]:
            title = latex(Path(definition["file"]).stem)
            note = f"{prose(definition['file'])}, SHA-256 {sha256[:16]}"
            entries[f"suite_{title}".replace("\\", "")] = {"title": title, "note": note}
    for fields in entries.values():
        if "eprint" in fields:
            fields |= {"archiveprefix": "arXiv", "howpublished": f"arXiv:{fields['eprint']}"}
    if "refract" in entries:
        commits, days = ", ".join(facts["commits"]), facts["judged"] or facts["answered"]
        entries["refract"] |= {"year": days[-1][:4]} if days else {}
        entries["refract"]["note"] = f"Version {', '.join(facts['versions'])}" + (
            f", commit {commits}" if commits else ""
        )
    texts = []
    for key, fields in entries.items():
        body = "".join(
            f"  {x} = {{{of}}},\n" for x, of in fields.items() if x not in ("type", "of")
        )
        texts.append(f"@{fields.get('type', 'misc')}{{{key},\n{body}}}\n")
    return "\n".join(texts)
