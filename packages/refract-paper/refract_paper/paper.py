"""A paper's appendix of one project: what ``refract export --as appendix`` writes, all of it from
its results."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from jinja2 import FileSystemLoader, pass_context
from markupsafe import Markup

from refract.core.errors import UsageError
from refract.core.jsonl import write_bytes
from refract.core.params import read_yaml
from refract.core.progress import ran_file, read_object
from refract.core.registry import Registry, find
from refract.core.settings import Settings
from refract.core.types import is_last
from refract.export import Export
from refract.project import project_root
from refract.rates.judge_error import JudgeError
from refract.rates.key import CATEGORY_MEASURES, CONTRASTS, REFUSAL
from refract.report.drawing import drawn
from refract.report.figure_data import figures_of
from refract.report.markdown import blanked, environment, tidy
from refract.report.sections import seed_used
from refract.report.view import View, read_view
from refract.results.current import current_note
from refract.results.sources import Side, read_side, stand_ins
from refract_paper.bundle import Bundle, find_bundle, write_bundle
from refract_paper.latex import as_latex, as_markdown, latex, prose, typewriter
from refract_paper.paper_tables import (
    agreement_table,
    compared_pairs,
    difference_table,
    interval_table,
)

TEMPLATES = Path(__file__).parent / "templates"
REFERENCES = Path(__file__).with_name("references.yaml")
# What packages add: functions that return entries like those of the file.
FURTHER = Registry({}, "refract.references")
IMPORTED = re.compile(r"^Made by `refract import-suite (\w+)`", re.M)  # in a suite's card
# Settings that the methods state in words of their own.
STATED = {
    "adapter",
    "adapter_version",
    "model",
    "temperature",
    "top_p",
    "top_k",
    "max_tokens",
    "arithmetic",
    "system_prompt",
    "seed",
    "sha256",
    "commit",
    "kind",
    "version",
}
Facts = Mapping[str, Any]


class AppendixSettings(Settings):
    """``digits`` are the decimals of the tables."""

    digits: Literal[2, 3] = 2


def write_bundle_alone(export: Export) -> Iterator[str]:
    """The bundle alone, of a project's folder. Raises :class:`ResultsError` as
    :func:`write_appendix` does."""
    export.settings(Settings)
    root = _project_of(export, "bundle")
    view = read_view(root)
    bundle = find_bundle(root, view.provenance)
    yield from _written_bundle(root, bundle, view, export.out)[1]


def _project_of(export: Export, format_: str) -> Path:
    """The folder of the project that is exported. Raises :class:`UsageError` for a file, and
    for a part of a project."""
    if export.models or export.suites:
        raise UsageError(f"--as {format_} is of a whole project: leave out --model and --suite")
    root = Path(export.source or project_root())
    if root.is_file():
        command = f"refract export PROJECT --as {format_} --out {export.out}"
        raise UsageError(
            f"{root} is a file; --as {format_} is made of a project's folder: {command}"
        )
    return root


def _written_bundle(root: Path, bundle: Bundle, view: View, out: Path) -> tuple[str, list[str]]:
    """The SHA-256 of a bundle's list of hashes, and what to say of it."""
    facts = {"view": view, **bundle._asdict()}
    sums = write_bundle(root, bundle, rendered(view, "bundle.md.j2", facts, {}), out)
    said = [f"{out}: {len(bundle.paths)} files, {bundle.answers:,} answers; SHA256SUMS has {sums}"]
    for suite, reason in bundle.left_out.items():
        said.append(f"{suite} is there by its outcomes alone: {reason}")
    return sums, said


def write_appendix(export: Export) -> Iterator[str]:
    """Writes the appendix of a project's folder; says of each part what was written.

    Raises :class:`ResultsError` where results are missing or not what they were made of."""
    settings = export.settings(AppendixSettings)
    root, out, places = _project_of(export, "appendix"), export.out, settings.digits
    side, view = read_side(root), read_view(root)
    stale = f"note: {current_note(side.reasons)}" if side.reasons else ""
    if stale:
        yield stale
    bundle = find_bundle(root, view.provenance)
    contrasts = "Harmful minus other requests refused"
    tables = {}
    for table in (
        interval_table(
            view,
            CATEGORY_MEASURES.values(),
            label="rates",
            caption="Refusal by category",
            places=places,
        ),
        interval_table(
            view, CONTRASTS.values(), label="discrimination", caption=contrasts, places=places
        ),
        difference_table(view, places),
        agreement_table(view, places),
    ):
        if table.rows:
            tables[table.label] = table
    facts = facts_of(root, view, side) | bundle._asdict() | {"tables": tables, "stale": stale}
    cited = dict.fromkeys(("nist2026ai8002", "ghosh2026evaluationcards"))
    facts["sums"], said = _written_bundle(root, bundle, view, out / "bundle")
    texts = {
        "methods.md": rendered(view, "methods.j2", facts=facts, cited=cited),
        "methods.tex": rendered(view, "methods.j2", facts=facts, cited=cited, tex=True),
        "checklist.md": rendered(view, "checklist.md.j2", facts=facts, cited=cited),
    }
    for name, table in tables.items():
        texts[f"tables/{name}.md"] = as_markdown(table)
        texts[f"tables/{name}.tex"] = as_latex(table)
    texts["references.bib"] = bibliography(cited, facts)
    content = {name: text.encode("utf-8", "backslashreplace") for name, text in texts.items()}
    for figure in figures_of(view):
        content[f"figures/{figure.name}.pdf"] = drawn(figure, "pdf")
    for name, data in content.items():
        write_bytes(out / name, [data])
        yield f"{out / name}"
    yield from said


@cache
def references() -> dict[str, dict[str, Any]]:
    """The fields of BibTeX of all that can be cited, by key."""
    known = dict(read_yaml(REFERENCES))
    for name in FURTHER.installed():
        known |= find(FURTHER, name, "references")()
    return known


def reference_keys(name: str) -> list[str]:
    """The keys of what a thing is by."""
    return [key for key, entry in references().items() if name in entry.get("of", ())]


def _suite_keys(card: Path) -> list[str]:
    imported = IMPORTED.search(card.read_text("utf-8")) if card.is_file() else None
    return reference_keys(imported[1]) if imported else []


def settings_text(settings: Facts) -> str:
    """Settings that the methods do not state in words of their own: ``rate 0.05``."""
    texts = []
    for key, value in settings.items():
        unset = isinstance(value, Mapping) or value in (None, False, [])
        if key not in STATED and not unset:
            texts.append(f"{key} {value!r}".replace("'", ""))
    return ", ".join(texts)


def facts_of(root: Path, view: View, side: Side) -> dict[str, Any]:
    """What the templates state beside the view."""
    answers = [line.refusal.counts for line in view.first_lines]
    labels = 0
    known = set()  # suites and models of which the judge's error is known from published labels
    for model, about in view.provenance.items():
        known |= {(name, model) for name in about["suites"] if JudgeError.of_suite(about, name)}
    labelled = set()  # those whose second interval labels of the run make
    for rate in view.every:
        place = rate.suite, rate.model
        corrected = view.overall.get(place, {}).get(rate.measure.corrects)
        if rate.interval and corrected and corrected.with_judge:
            labelled.add(place)
        if rate.counts.labels and rate.measure.corrects == REFUSAL.name:
            labels += rate.counts.labels.used
    once = []
    for model, about in view.provenance.items():
        if all(suite["draw"]["samples"] == 1 for suite in about["suites"].values()):
            once.append(model)
    judge_keys = {}
    for name, judge in view.judges.items():
        judge_keys[name] = reference_keys(str(judge.get("name", name)))
        judge_keys[name] = judge_keys[name] or reference_keys(judge["kind"])
    return {
        **ran_facts(root, view.models),
        "view": view,
        "suites": suite_facts(root, view, side),
        "once": once,
        "judge_keys": judge_keys,
        "with_judge": any(
            rate.with_judge and (rate.key.judge or (rate.suite, rate.model) in known)
            for rate in view.every
        ),
        "judge_error": any(rate.with_judge and not rate.key.judge for rate in view.every),
        "judged_differences": any(pair.difference.judge_interval for pair in compared_pairs(view)),
        "clean": sum(counts.n + counts.unjudged for counts in answers),
        "cut_off": sum(view.cut_off.get((line.model, line.suite), 0) for line in view.first_lines),
        "unjudged": sum(counts.unjudged for counts in answers),
        "clustered": any(counts.clusters and counts.clusters < counts.n for counts in answers),
        "labels": labels,
        "labels_weigh": bool(labelled & known),
        "labels_alone": bool(labelled - known),
        "stand_ins": stand_ins(view.provenance),
    }


def samples_of(view: View, suite: str) -> dict[int, list[str]]:
    """How often each prompt of a suite was answered, with the models."""
    samples: dict[int, list[str]] = {}
    for model, facts in view.provenance.items():
        if suite in facts["suites"]:
            samples.setdefault(facts["suites"][suite]["draw"]["samples"], []).append(model)
    return samples


def suite_facts(root: Path, view: View, side: Side) -> list[dict[str, Any]]:
    """Each suite with what it is by, the categories of its prompts, and if it has a card."""
    kinds: dict[str, list[str]] = {}
    for row in next(iter(side.results.values())).outcomes:
        if not row["perturbation"] and row["sample"] in ("", "1") and is_last(row):
            kinds.setdefault(row["suite"], []).append(row["category"])
    suites = []
    for name, facts in view.suites.items():
        card = (root / facts["definition"]["file"]).with_suffix(".md")
        suites.append(
            {
                "name": name,
                "facts": facts,
                "cites": _suite_keys(card),
                "kinds": kinds.get(name, []),
                "samples": samples_of(view, name),
                "card": card.is_file(),
            }
        )
    return suites


def ran_facts(root: Path, models: Iterable[str]) -> dict[str, Any]:
    """When, with which code and on which machines models answered and were judged."""
    runs, judged = [], []
    for model in models:
        ran = read_object(root / ran_file(model))
        runs += ran.get("runs", ())
        judged += [ran["judged"]] if "judged" in ran else []
    versions = set[str]()
    commits = set[str]()
    libraries = set[str]()
    machines = set[str]()
    dirty = False
    for run in (*runs, *judged):
        code = run.get("code") or {}
        versions |= {code["refract"]} if code else set()
        commits |= {code["commit"][:12]} if code.get("commit") else set()
        dirty |= bool(code.get("dirty"))
        libraries |= set(map(" ".join, run.get("libraries", {}).items()))
    for run in runs:
        machine = run.get("machine", {})
        machines |= {machine.get("processor"), machine.get("accelerator")} - {None, ""}

    def days(key: str) -> list[str]:
        """The first day and the last."""
        moments = [run[key][:10] for run in (*runs, *judged) if run.get(key)]
        return list(dict.fromkeys([min(moments), max(moments)])) if moments else []

    return {
        "versions": sorted(versions) or [version("refract-eval")],
        "commits": sorted(commits),
        "dirty": dirty,
        "answered": days("started_at"),
        "judged": days("judged_at"),
        "libraries": sorted(libraries),
        "machines": sorted(map(str, machines)),
    }


def rendered(view: View, name: str, facts: Facts, cited: dict[str, None], tex: bool = False) -> str:
    """A template as Markdown, or as LaTeX; ``cited`` gets the keys."""
    templates = environment()
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

    templates.filters |= {"cite": cite, "code": code, "head": head, "suite": view.label}
    templates.filters |= {"reference": reference_keys, "settings": settings_text}
    templates.filters["seed_used"] = seed_used
    text = tidy(templates.get_template(name).render(**facts))
    # Names and hashes of any length must fit a line.
    return f"{{\\sloppy\\emergencystretch=4em\n{text}\\par}}\n" if tex else f"{text}\n"


def bibliography(cited: Mapping[str, None], facts: Facts) -> str:
    """What was cited as BibTeX, and an entry for each suite of the project's own."""
    entries = {key: dict(references()[key]) for key in sorted(cited)}
    for suite in facts["suites"]:
        definition = suite["facts"]["definition"]
        sha256 = suite["facts"]["sha256"]
        if not suite["cites"]:
            note = f"{prose(definition['file'])}, SHA-256 {sha256[:16]}"
            # A name of params.yaml is of letters, digits and underscores, and there once.
            entries[f"suite_{suite['name']}"] = {"title": latex(suite["name"]), "note": note}
    for fields in entries.values():
        if "eprint" in fields:
            fields |= {"archiveprefix": "arXiv", "howpublished": f"arXiv:{fields['eprint']}"}
    if "refract" in entries:
        commits = f", commit {', '.join(facts['commits'])}" if facts["commits"] else ""
        days = facts["judged"] or facts["answered"]
        entries["refract"] |= {"year": days[-1][:4]} if days else {}
        entries["refract"]["note"] = f"Version {', '.join(facts['versions'])}{commits}"
    texts = []
    for key, fields in entries.items():
        text = f"@{fields.get('type', 'misc')}{{{key},\n"
        for name, value in fields.items():
            if name not in ("type", "of"):
                text += f"  {name} = {{{value}}},\n"
        texts.append(f"{text}}}\n")
    return "\n".join(texts)
