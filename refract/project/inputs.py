"""The files and folders that params.yaml names, wherever they are, and their hashes.

DVC watches the project's own data. Other files that a definition names (weights,
answers, a template) reach it through these hashes. They are kept with the files' sizes
and times, so that weights are hashed once."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Any

from refract.core.errors import ParamsError, RefractError
from refract.core.file_formats import LOGS
from refract.core.jsonl import canonical_json, iter_rows, parse_line, sha256_file, write_json
from refract.core.params import INPUTS, SECTIONS, read_yaml
from refract.core.played import PLAYED
from refract.core.progress import read_object
from refract.core.registry import Registry, code_files
from refract.core.showing import say
from refract.core.types import filled
from refract.judges import JUDGES, check_counted, defined_judge, judges_to_measure, read_judge
from refract.models import ADAPTERS, checkpoint, open_model, with_implied
from refract.models.answering import ANSWERS
from refract.models.arithmetic import ARITHMETICS
from refract.models.checkpoint import WEIGHT_FILES, is_hub_id, is_package
from refract.models.protocol import LASTING_ERRORS
from refract.models.recorded import Recorded
from refract.rates.key import INSTALLED as MEASURES
from refract.rates.key import installed_measures
from refract.rates.names import unknown_threshold
from refract.suites.perturbations import PERTURBATIONS
from refract.suites.rows import is_played, load_suite

# Counted up when the code would see something else in the same files.
VERSION = 5
STATE = Path("data/runs/inputs.json")
# Marker file: makes DVC re-run the stage, which retries failed requests.
MARK = "ask_again.json"
# A folder that is no checkpoint is hashed file by file, up to so many.
MOST_FILES = 10_000
# How a verdict's error begins whose judge model did not answer.
JUDGE_FAILED = "the judge failed: "
# Settings whose text may be the bare name of a folder.
FOLDERS = ("model_id", "encoder")
# Settings of models that name a file or folder, by their adapter.
LOCAL = {"hf": "model_id", "recorded": "path"}
# Settings of a suite that its prompts are made by, and those that its judges go by.
OF_PROMPTS = ("file", "sample", "stratified", "perturbations", "template", "tools", "samples")
OF_JUDGES = ("file", "judges", "perturbations")
# The settings by which a definition names code of another package.
KINDS: dict[str, tuple[Registry, ...]] = {
    "adapter": (ADAPTERS,),
    "arithmetic": (ARITHMETICS,),
    "kind": (JUDGES, PERTURBATIONS),
    "path": (LOGS,),
}

REPORT_SECTIONS = Registry({}, "refract.sections")

Stat = list[int] | None


def stat_of(path: str | Path) -> Stat:
    """Size, times and inode of a file or folder, which change when it is written; None without one."""
    try:
        stat = os.stat(path)
    except (OSError, ValueError):
        return None
    # The time of the last change is set by the system alone.
    return [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino]


def known_hashes() -> dict[str, Any]:
    """Stat and hash of each file by path, as the last look found them; {} where there was none, or
    another release looked."""
    state = read_object(STATE)
    hashes: dict[str, Any] = state["hashes"] if state.get("version") == VERSION else {}
    return hashes


def texts_of(value: Any, place: str = "", key: str = "") -> Iterator[tuple[str, str, str]]:
    """Each text in a definition, however deep: its place, the key that it stands under, the text."""
    if isinstance(value, Mapping):
        for inner, setting in value.items():
            yield from texts_of(setting, f"{place}.{inner}" if place else str(inner), str(inner))
    elif isinstance(value, list):
        for number, entry in enumerate(value):
            yield from texts_of(entry, f"{place}.{number}", key)
    elif isinstance(value, str) and value:
        yield place, key, value


def named_path(key: str, text: str) -> Path | None:
    """The file or folder here that a setting's text names.

    A folder counts only where the text is a path, or the setting may be one: a word
    can be a folder's name too. A folder that holds what the pipeline writes never
    counts: it would always have changed."""
    path = Path(text).expanduser()
    if not stat_of(path):
        return None
    if path.is_file():
        return path
    holds_project = Path("data").resolve().is_relative_to(path.resolve())
    return path if (key in FOLDERS or "/" in text) and not holds_project else None


def files_named(*definitions: object) -> list[Path]:
    """The files and folders here that definitions of params.yaml name."""
    named = [named_path(key, text) for _, key, text in texts_of(list(definitions))]
    return [path for path in named if path is not None]


def files_of(path: Path) -> list[Path]:
    """The files that are hashed: those of a checkpoint that determine answers, or
    all of a folder."""
    if not path.is_dir():
        return [path]
    try:
        if (path / "config.json").is_file():
            return checkpoint.content_files(path, code=True)
    except RefractError:  # it cannot be loaded either, which its stage says
        return sorted(path.glob("*"))
    return sorted(entry for entry in path.rglob("*") if entry.is_file())[:MOST_FILES]


class Hashes:
    """SHA-256 of what definitions name, computed anew only for files that changed.

    ``known`` is an earlier :attr:`seen`: stat and hash by path."""

    def __init__(self, known: Mapping[str, Any]) -> None:
        self._known = known
        self.seen: dict[str, tuple[Stat, str]] = {}

    def of_definition(self, definition: Any, before: Mapping[str, str]) -> dict[str, str]:
        """The hash of what each setting names, by place; of what is not on this
        machine, the one ``before``, from where the answers were made."""
        hashes = {}
        for place, key, text in texts_of(definition):
            path = named_path(key, text)
            if path is not None:
                hashes[place] = self._of_files(path, files_of(path))
            elif place in before:
                hashes[place] = before[place]
        return hashes

    def of_answers(self, folder: Path) -> dict[str, str]:
        """The hash of recorded answers that count as known, by their folder."""
        files = sorted(folder.glob("*.json*"))
        return {folder.as_posix(): self._of_files(folder, files)} if files else {}

    def of_code(self, definitions: object) -> dict[str, str]:
        """The hash of the code of other packages that definitions name, by package."""
        names = []
        for _, key, text in texts_of(with_implied([definitions])):
            names += [(registry, text) for registry in KINDS.get(key, ())]
            names += [(WEIGHT_FILES, "gguf")] if key == "gguf_file" else []
        return self.of_packages(names)

    def of_packages(self, names: Iterable[tuple[Registry, str]]) -> dict[str, str]:
        """The hash of the code that names of registries come from, by package, without this one."""
        hashes = {}
        for registry, name in names:
            for package, path in registry.code_of(name).items():
                hashes[package] = self._of_files(path, code_files(path))
        return dict(sorted(hashes.items()))

    def _of_files(self, path: Path, files: Sequence[Path]) -> str:
        """One hash of a file, or of a folder's readable files with their names in it."""
        total = hashlib.sha256()
        for file in files:
            stat, before = stat_of(file), self._known.get(str(file))
            try:
                digest = before[1] if before and before[0] == stat else sha256_file(file)
            except OSError:
                continue
            self.seen[str(file)] = (stat, digest)
            name = file.relative_to(path) if file.is_relative_to(path) else Path(file.name)
            total.update(f"{name.as_posix()}\0{digest}\n".encode("utf-8", "backslashreplace"))
        return total.hexdigest()


def changed_files(params: Mapping[str, Any]) -> list[str]:
    """Which files that the definitions of the current folder's project name, wherever
    they are, are other ones than when ``check-inputs`` last looked here."""
    hashes = Hashes(known_hashes())
    catalogue, named, _ = _catalogue(params)
    looks = []
    for path in catalogue:
        before = read_object(INPUTS / path).get("files", {})
        looks.append((Path(path).stem, named[path], before))
    for name in params["grid"]["models"]:
        before = read_object(INPUTS / f"models/{name}.json")
        looks.append((name, params["models"][name], before))
    changed = []
    for name, definition, before in looks:
        for place, digest in hashes.of_definition(definition, before).items():
            if before.get(place, digest) != digest:
                changed.append(f"{name}.{place} is another file")
    return changed


def check_files(params: Mapping[str, Any]) -> None:
    """Raises :class:`RefractError` for what a stage would end at behind costly ones: a suite that
    cannot be used or lacks what its definition asks about, or a model whose weights or answers are
    neither here nor known from where they were."""
    known = read_object(INPUTS / "suites.json").get("suites", {})
    for name in params["grid"]["suites"]:
        suite, where = params["suites"][name], f"suites.{name}"
        if not Path(suite["file"]).is_file():
            if known.get(name, {}).get("file") == suite["file"]:
                continue
            raise ParamsError(f"{where}: file: {_absent(suite['file'])}")
        rows = load_suite(Path(suite["file"]))
        judges = {judge: defined_judge(judge, params["judges"][judge]) for judge in suite["judges"]}
        families = {judge: defined.FAMILY for judge, defined in judges.items()}
        problem = unknown_threshold(suite, families, {str(row["category"]) for row in rows})
        columns = {column for row in rows for column in row}
        lacking = [("fields", name) for name in suite.get("fields") or () if name not in columns]
        cluster = suite.get("cluster")
        if cluster is not None and all(filled(row.get(cluster)) is None for row in rows):
            lacking.append(("cluster", cluster))
        if lacking and not problem:
            setting, column = lacking[0]
            problem = f"{setting}: no row of {suite['file']} has {column!r}"
        check_counted(name, judges, perturbed=bool(suite.get("perturbations")))
        if problem:
            raise ParamsError(f"{where}: {problem}")
    for name in params["grid"]["models"]:
        definition, parts = params["models"][name], Path("data/shards", name)
        if any(parts.glob("*.jsonl")):  # paid for, maybe
            raise ParamsError(
                f"models.{name}: answers of parts, in {parts}, are no longer read: move them to "
                f"{ANSWERS / name}, from which they are taken"
            )
        answered = read_object(Path("data/responses", name, "model.json")).get("definition", {})
        key = LOCAL.get(definition["adapter"], "")
        text = definition.get(key)
        elsewhere = answered.get(key) == text or (ANSWERS / name).is_dir()
        if isinstance(text, str) and not elsewhere and not Path(text).expanduser().exists():
            fetched = key == "model_id" and (is_hub_id(text) or is_package(text))
            if not fetched:
                raise ParamsError(
                    f"models.{name}: {key}: {_absent(text)}, or take {name} out of grid.models"
                )
        opened = open_model(name, definition) if definition["adapter"] == "recorded" else None
        if isinstance(opened, Recorded) and opened.path.is_file():
            opened.check()


def check_dvc_finds(params: Mapping[str, Any]) -> None:
    """Raises :class:`ParamsError` for what DVC ends at, however much the stages before it cost: a key
    that a stage of dvc.yaml reads and params.yaml lacks, and a file that no stage writes any more."""
    pipeline = Path("dvc.yaml")
    stages = read_yaml(pipeline).get("stages", {}) if pipeline.is_file() else {}
    for stage, settings in stages.items():
        for key in settings.get("params", ()):
            if isinstance(key, str) and "${" not in key and not _has(params, key):
                known = key.partition(".")[0] in SECTIONS
                add = "add it (docs/params.md has its default), or " if known else ""
                raise ParamsError(
                    f"params.yaml has no {key!r}, which the stage {stage} of dvc.yaml reads: {add}take "
                    "it out of that stage's params"
                )
        if "data/failures" in str(settings.get("outs")):
            raise ParamsError(f"data/failures is gone: take it out of outs of {stage} in dvc.yaml")


def _has(params: Any, key: str) -> bool:
    """Whether there is a value at a dotted key."""
    for part in key.split("."):
        if not isinstance(params, Mapping) or part not in params:
            return False
        params = params[part]
    return True


def _absent(path: str) -> str:
    kind = "a folder, and no file," if Path(path).is_dir() else "no file or folder"
    tracked = [each for each in (Path(path), *Path(path).parents) if Path(f"{each}.dvc").is_file()]
    remedy = "correct it"
    if tracked:
        remedy = f"run: dvc pull {quote(str(tracked[0]))}"
        remedy = f"correct it, or {remedy}" if tracked[0].exists() else remedy
    return f"{kind} {path!r} (seen from {Path.cwd()}); {remedy}"


def errors_to_ask_again(folder: Path) -> int:
    """How many rows of responses or verdicts have an error that another try could mend."""
    count = 0
    for path in sorted(folder.glob("*.jsonl")):
        with open(path, "rb") as file:
            for line in file:
                if b'"error": {' not in line and JUDGE_FAILED.encode() not in line:
                    continue
                row = parse_line(line)
                types = {row["error"]["type"]} if "error" in row else set()
                for verdict in row.get("judges", {}).values():
                    error = str(verdict["error"])
                    if error.startswith(JUDGE_FAILED):
                        types.add(error.removeprefix(JUDGE_FAILED).partition(":")[0])
                count += bool(types - LASTING_ERRORS)
    return count


def write_inputs(params: Mapping[str, Any]) -> int:
    """Writes ``data/inputs``: for each stage what it reads of suites, judges and
    perturbations in use, and the hashes of the files that these and the models name.
    Marks errors that may have passed. Returns how many files have a hash."""
    catalogue, named, has_played = _catalogue(params)
    hashes = Hashes(known_hashes())
    plays = hashes.of_packages([(PLAYED, "prompts")] if has_played else [])
    written: dict[str, Any] = {}
    for name in params["grid"]["models"]:
        path = f"models/{name}.json"
        before = read_object(INPUTS / path)  # written last, here or where answers were made
        definition = params["models"][name]
        answers = hashes.of_answers(ANSWERS / name) | hashes.of_code(definition) | plays
        written[path] = hashes.of_definition(definition, before) | answers
        written[f"verdicts/{name}.json"] = _mark_errors(name)
    for path in catalogue:
        before = read_object(INPUTS / path).get("files", {})
        code = {} if path == "validated.json" else plays
        if path == "suites.json":  # rates do not ask what a perturbation does
            code = code | hashes.of_code(catalogue[path]["suites"])
            counting = [measure.name for measure in installed_measures() if measure.count]
            code |= hashes.of_packages((MEASURES, name) for name in counting)
        else:
            code = code | hashes.of_code(catalogue[path])
        files = hashes.of_definition(named[path], before) | code
        written[path] = {**catalogue[path], "files": files}
    # The measures and sections of the report that installed packages bring.
    shown = [
        (registry, name)
        for registry in (MEASURES, REPORT_SECTIONS)
        for name in registry.installed()
    ]
    written["report.json"] = hashes.of_packages(shown)
    for path, value in written.items():
        write_json(INPUTS / path, value)
    for file in INPUTS.rglob("*.json"):
        if file.relative_to(INPUTS).as_posix() not in written:
            file.unlink()
    write_json(STATE, {"version": VERSION, "hashes": hashes.seen})
    return len(hashes.seen)


def _catalogue(params: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], bool]:
    """What a stage reads of params.yaml, by the file that it depends on, the definitions
    whose files are hashed for it, and whether a suite has rows that are played."""
    names = {"suites": params["grid"]["suites"]}
    suites: dict[str, Any] = {}
    prompts: dict[str, Any] = {}
    judged: dict[str, Any] = {}
    files: dict[str, Any] = {}
    rows: dict[str, str | None] = {}
    used: dict[str, Any] = {}
    perturbations: set[str] = set()
    sampled = has_played = False
    for name in names["suites"]:
        suites[name] = suite = params["suites"][name]
        prompts[name] = {key: suite[key] for key in OF_PROMPTS if key in suite}
        judged[name] = {key: suite[key] for key in OF_JUDGES if key in suite}
        files[name] = {"file": suite["file"]}
        own = {judge: params["judges"][judge] for judge in suite["judges"]}
        rows[name], plays = _rows_read(Path(suite["file"]), own)
        has_played = has_played or plays or bool(suite.get("tools"))
        used |= own
        perturbations.update(suite.get("perturbations") or ())
        sampled = sampled or bool(suite.get("sample"))
    measured = judges_to_measure(params["judges"])
    changes = {name: params["perturbations"][name] for name in sorted(perturbations)}
    catalogue = {
        "prompts.json": {"grid": names, "suites": prompts, "perturbations": changes},
        "judges.json": {"grid": names, "suites": judged, "judges": used, "rows": rows},
        "suites.json": {
            "grid": names,
            "suites": suites,
            "perturbations": changes,
            "seed": params["seed"] if perturbations or sampled else None,
        },
        "validated.json": {"judges": measured},
    }
    hashed = {
        "prompts.json": {"suites": files, "perturbations": changes},
        "judges.json": used,
        "suites.json": files,
        "validated.json": measured,
    }
    return catalogue, hashed, has_played


def _rows_read(file: Path, judges: Mapping[str, Any]) -> tuple[str | None, bool]:
    """The hash of what judges read of a suite's rows (their columns, those that join rows, and
    the language), and whether some are played. None for a file that cannot be read, which is
    said where prompts are made of it."""
    columns: set[str] | None = {"id", "pair_id", "language"}
    for name, definition in judges.items():
        read = read_judge(name, definition)[0].columns
        columns = None if columns is None or read is None else columns | {*read}
    total = hashlib.sha256()
    has_played = False
    try:
        for row in iter_rows(file):
            has_played = has_played or is_played(row)
            shown = {key: row[key] for key in row if columns is None or key in columns}
            total.update(canonical_json(shown).encode())
    except (RefractError, KeyError, TypeError):
        return None, False
    return total.hexdigest(), has_played


def _mark_errors(model: str) -> dict[str, int]:
    """Marks answers of a model that may be asked again, and returns the same of its verdicts.

    DVC remembers what a judge gave for the same inputs, so these have to differ for another try."""
    answers = Path("data/responses") / model
    of_judges = [Path("data/verdicts") / model, Path("data/null_verdicts") / model]
    errors = 0
    for folder in (answers, *of_judges):
        count = errors_to_ask_again(folder)
        if not count:
            continue
        kind = folder.parent.name.replace("responses", "answers").replace("_", " ")
        say(f"check-inputs: {model}: {count} {kind} are errors that may pass: asked again")
        if folder == answers:
            write_json(answers / MARK, {"errors": count})
        else:
            errors += count
    if not errors:
        return {}
    tries = read_object(INPUTS / f"verdicts/{model}.json").get("tries", 0)
    return {"errors": errors, "tries": tries + 1}
