"""Which params.yaml counts, and the models, suites and judges that it names.

It is the current folder's, or else the default one, which comes with the package and its suites."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from refract.core.environment import library_versions, pinned_versions
from refract.core.errors import MissingPackage, ParamsError, UsageError, nearest
from refract.core.jsonl import write_bytes
from refract.core.params import (
    NAMED_JUDGES,
    OPTIONAL,
    SECTIONS,
    DecisionSettings,
    Grid,
    NullAnswerSettings,
    ValidationSettings,
    definition,
    grid,
    load_params,
    named_judges,
)
from refract.core.registry import find, missing_package
from refract.core.settings import read_settings
from refract.core.vocabulary import FAMILIES
from refract.judges import JUDGES, SHIPPED, defined_judge, open_judge, read_judge
from refract.models import open_model
from refract.rates.names import name_problems, unknown_threshold
from refract.suites.perturbations import read_perturbation
from refract.suites.rows import CATEGORIES

PARAMS = "params.yaml"
CONSTRAINTS = "constraints.txt"
TEMPLATE = Path(__file__).parent / "template"
# Names of files that would take effect in this repository under their own.
RENAMED = {
    "dvcignore": ".dvcignore",
    "gitattributes": ".gitattributes",
    "gitignore": ".gitignore",
    "pipeline.yaml": "dvc.yaml",
}
# What the command line calls a judge of kind refusal whose model it names.
MODEL_JUDGE = "llm"


class Project(NamedTuple):
    """A folder with a params.yaml, and what that holds."""

    folder: Path
    params: dict[str, Any]


def default_folder() -> Path:
    """The folder of the default params.yaml, suites and stages; in a checkout, the checkout itself."""
    packaged = Path(__file__).parents[1] / "defaults"
    return packaged if packaged.is_dir() else Path(__file__).parents[2]


def read_project(folder: Path) -> Project:
    """The project in a folder. Raises :class:`ParamsError` for the first definition
    of its params.yaml that is wrong, used or not."""
    params = load_params(folder / PARAMS)
    check_definitions(params)
    return Project(folder, params)


def check_definitions(params: Mapping[str, Any], *, may_run: bool = True) -> None:
    """Raises :class:`ParamsError` for a missing section or a wrong definition, used or not, and
    where the grid ``may_run`` :class:`MissingPackage` for one in use of a package that is not
    installed. Opens no file that a definition names, since it may be elsewhere."""
    needed = [section for section in SECTIONS if section not in OPTIONAL]
    for section in needed:
        if section not in params:
            raise ParamsError(f"{PARAMS} has no section {section!r}; it needs {', '.join(needed)}")
    for axis in Grid.model_fields:
        grid(params, axis)
    for kind, section in (
        (DecisionSettings, "decisions"),
        (NullAnswerSettings, "null_answers"),
        (ValidationSettings, "validation"),
    ):
        settings = params.get(section)
        read_settings(kind, section, {} if settings is None else settings)
    used = used_definitions(params) if may_run else set()

    def may_lack(catalogue: str, name: str) -> suppress:
        return suppress(*(() if (catalogue, name) in used else (MissingPackage,)))

    for name, perturbation in (params.get("perturbations") or {}).items():
        with may_lack("perturbations", name):
            read_perturbation(name, perturbation)
    for name, model in params["models"].items():
        with may_lack("models", name):
            open_model(name, model)
    for name, judge in params["judges"].items():
        with may_lack("judges", name):
            read_judge(name, judge)
            model = judge.get("model")
            if isinstance(model, dict) and "adapter" in model:
                open_model(name, model, f"judges.{name}.model")
    for name in params["suites"]:
        suite = definition(params, "suites", name)
        families = {}
        with may_lack("suites", name):
            for judge in suite["judges"]:
                families[judge] = defined_judge(judge, definition(params, "judges", judge)).FAMILY
            check_names(f"suites.{name}", suite, families)
            problem = unknown_threshold(suite, families, CATEGORIES)
            if problem:
                raise ParamsError(f"suites.{name}: {problem}")


def used_definitions(params: Mapping[str, Any]) -> set[tuple[str, str]]:
    """Catalogue and name of each definition that the grid uses."""
    used = {("models", name) for name in grid(params, "models")}
    for name in grid(params, "suites"):
        suite = definition(params, "suites", name)
        used.add(("suites", name))
        for catalogue in ("judges", "perturbations"):
            used.update((catalogue, part) for part in suite.get(catalogue) or ())
    return used


def check_names(where: str, suite: Mapping[str, Any], families: Mapping[str, str]) -> None:
    """Raises :class:`ParamsError` where two numbers of a suite would have one name, by the
    families of its judges' labels, or a threshold lies outside its measure's range; ``where``
    names the suite."""
    problems = name_problems(suite, families)
    if problems:
        raise ParamsError(f"{where}: {problems[0]}")


def write_project(folder: Path) -> None:
    """Writes a small project and the versions that compute it. Raises :class:`UsageError` where one
    of its files exists."""
    from importlib.metadata import version

    targets = {}
    for path in sorted(TEMPLATE.rglob("*")):
        if path.is_file():
            place = path.relative_to(TEMPLATE)
            targets[path] = folder / place.with_name(RENAMED.get(path.name, path.name))
            if path.name == "dvcignore" and targets[path].exists():
                del targets[path]  # `dvc init` wrote one before
    constraints = folder / CONSTRAINTS
    present = [str(target) for target in (*targets.values(), constraints) if target.exists()]
    if present:
        raise UsageError(f"not written, since these exist: {', '.join(present)}")
    for path, target in targets.items():
        write_bytes(target, [path.read_bytes()])
    versions = {"refract-eval": version("refract-eval")}
    for name, number in library_versions().items():
        # Without the label of a build: `torch==2.13.0+cpu` keeps a co-author from using a GPU.
        versions[name] = number.partition("+")[0]
    text = "".join(f"{name}=={number}\n" for name, number in versions.items())
    write_bytes(constraints, [text.encode()])


def check_version(folder: Path) -> None:
    """Raises :class:`UsageError` unless the installed version is the one that a project names."""
    from importlib.metadata import version

    installed = version("refract-eval")
    constraints = folder / CONSTRAINTS
    text = constraints.read_text("utf-8") if constraints.is_file() else ""
    pinned = pinned_versions(text).get("refract-eval", installed)
    if pinned != installed:
        raise UsageError(
            f"{CONSTRAINTS} names refract-eval=={pinned}, installed is {installed}: install that "
            f"version, or write {installed} there, which makes `dvc repro` compute everything again"
        )


def default_project() -> Project:
    """The default params.yaml with its suites."""
    folder = default_folder()
    params = load_params(folder / PARAMS)
    check_definitions(params, may_run=False)
    return Project(folder, params)


def find_project() -> Project:
    """The project in the current folder if there is one, else the default."""
    here = Path.cwd()
    return read_project(here) if (here / PARAMS).is_file() else default_project()


def project_root() -> Path:
    """The current folder. Raises :class:`UsageError` unless it is a project."""
    here = Path.cwd()
    if not (here / PARAMS).is_file():
        raise UsageError(
            f"{here} holds no {PARAMS}: change to a project's folder, or make one with `refract init`"
        )
    return here


def find_model(name: str, project: Project) -> dict[str, Any]:
    """A model's definition by its name in params.yaml. Raises :class:`UsageError`."""
    known = project.params.get("models") or {}
    if name not in known:
        raise UsageError(_unknown("model", name, known))
    return definition(project.params, "models", name)


def find_suite(name: str, project: Project) -> tuple[str, dict[str, Any]]:
    """The name and definition of a suite, by its name in params.yaml or by its file.
    Raises :class:`UsageError` for neither."""
    known = project.params.get("suites") or {}
    if name in known:
        suite = definition(project.params, "suites", name)
        return name, {**suite, "file": str(project.folder / suite["file"])}
    path = Path(name)
    if path.is_file():
        return path.stem, {"file": name}
    raise UsageError(_unknown("suite and no file", name, known))


def find_judge(
    name: str,
    project: Project,
    model: str | None = None,
    base_url: str | None = None,
) -> dict[str, Any]:
    """A judge by its name in params.yaml, by its kind, or by the name of a published one; ``llm``
    is one of kind llm_refusal.

    ``model`` is the model that judges in place of the judge's own: by its name in params.yaml, or
    as ADAPTER:MODEL_ID; ``base_url`` is its server. Raises :class:`UsageError`."""
    judge = _judge_named(name, project, has_model=model is not None)
    if model is not None:
        if not _asks_model(name, judge):
            raise UsageError(
                f"--judge-model: the judge {name!r} asks no model; leave --judge out, or "
                "name one that does"
            )
        judge = judge | {"model": _judging_model(model, project)}
    if base_url is not None:
        if not isinstance(judge.get("model"), dict):
            raise UsageError("--judge-base-url: name the model that judges with --judge-model")
        judge = judge | {"model": judge["model"] | {"base_url": base_url}}
    return judge


def find_judges(
    asked: Sequence[str] | None,
    project: Project,
    model: str | None = None,
    base_url: str | None = None,
) -> dict[str, dict[str, Any]]:
    """The judges of a run, by default the default one; each that asks a model asks ``model``, and
    where none does, ``llm`` stands behind them.

    Before one that labels something else than refusal stands the default. Raises
    :class:`UsageError`."""
    names = list(dict.fromkeys(asked or [SHIPPED[0] if model is None else MODEL_JUDGE]))
    asks = []
    for name in names:
        if _asks_model(name, _judge_named(name, project, has_model=model is not None)):
            asks.append(name)
    if model is not None and not asks:
        names.append(MODEL_JUDGE)
        asks.append(MODEL_JUDGE)
    judges: dict[str, dict[str, Any]] = {}
    for name in names:
        asked_of = (None, None) if model is not None and name not in asks else (model, base_url)
        judge = find_judge(name, project, *asked_of)
        if not (judges or FAMILIES[open_judge(name, judge).FAMILY].tells_refusal):
            judges[SHIPPED[0]] = find_judge(SHIPPED[0], project)
        judges[name] = judge
    return judges


def _asks_model(name: str, judge: Mapping[str, Any]) -> bool:
    kind = find(JUDGES, judge.get("kind"), f"judges.{name}: kind")
    return "model" in kind.Settings.model_fields


def _judge_named(name: str, project: Project, *, has_model: bool) -> dict[str, Any]:
    known = project.params.get("judges") or {}
    if name == MODEL_JUDGE and has_model:
        return {"kind": "llm_refusal"}
    if name in known:
        return definition(project.params, "judges", name)
    if name == MODEL_JUDGE:
        raise UsageError("--judge llm: name the model that judges with --judge-model")
    if JUDGES.knows(name):
        return {"kind": name}
    if package := JUDGES.package_of(name):
        raise missing_package(f"the judge {name}", package)
    named = named_judges()
    if name in named:
        return named[name]
    unknown = _unknown("judge", name, {*known, *JUDGES, *JUDGES.installed(), *named})
    raise UsageError(unknown + NAMED_JUDGES.remedy())


def source_name(definition: Mapping[str, Any]) -> str:
    """What a model without a name of its own is called: its checkpoint or model of a provider,
    or how it is reached."""
    return Path(str(definition.get("model_id") or definition.get("adapter"))).name


def _judging_model(model: str, project: Project) -> dict[str, Any]:
    """The definition of the model that judges, without ``samples``."""
    adapter, colon, model_id = model.partition(":")
    if not colon:
        settings = dict(find_model(model, project))
        settings.pop("samples", None)
        return settings
    if "." in adapter and ":" in model_id:  # an adapter of another package: module:Class
        class_name, _, model_id = model_id.partition(":")
        adapter = f"{adapter}:{class_name}"
    return {"adapter": adapter, "model_id": model_id}


def _unknown(kind: str, name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    return f"no {kind} {name!r}{nearest(name, names)}; there are: {', '.join(names)}"
