"""Which params.yaml counts, and the models, suites and judges that it names.

In a project's folder that is the project's own. Elsewhere it is the default one, which travels with the
package together with the suites that it names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from refract.core.environment import library_versions
from refract.core.errors import ParamsError, UsageError
from refract.core.jsonl import write_bytes
from refract.core.params import (
    OPTIONAL,
    SECTIONS,
    DecisionSettings,
    Grid,
    ValidationSettings,
    definition,
    grid,
    load_params,
)
from refract.core.settings import nearest, read_settings
from refract.judges import JUDGES, published_judges, read_judge
from refract.models import open_model
from refract.rates.names import name_problems
from refract.suites.perturbations import read_perturbation

PARAMS = "params.yaml"
CONSTRAINTS = "constraints.txt"
TEMPLATE = Path(__file__).parent / "template"
# Names of files that would take effect in this repository under their own.
RENAMED = {"gitignore": ".gitignore", "pipeline.yaml": "dvc.yaml"}
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
    """The project in a folder, with every definition in its params.yaml checked. Raises
    :class:`ParamsError` for the first thing wrong with the file, used or not."""
    params = load_params(folder / PARAMS)
    check_definitions(params)
    return Project(folder, params)


def check_definitions(params: Mapping[str, Any]) -> None:
    """Raises :class:`ParamsError` for a section that is missing, and for a definition that its kind
    cannot use. Opens nothing: files that a definition names may be elsewhere."""
    needed = [section for section in SECTIONS if section not in OPTIONAL]
    if missing := [section for section in needed if section not in params]:
        raise ParamsError(f"{PARAMS} has no section {missing[0]!r}; it needs {', '.join(needed)}")
    for axis in Grid.model_fields:
        grid(params, axis)
    for kind, section in ((DecisionSettings, "decisions"), (ValidationSettings, "validation")):
        given = params.get(section)
        read_settings(kind, section, {} if given is None else given)
    for name, given in (params.get("perturbations") or {}).items():
        read_perturbation(name, given)
    for name, given in params["models"].items():
        open_model(name, given)
    for name, given in params["judges"].items():
        read_judge(name, given)
        model = given.get("model")
        if isinstance(model, dict) and "adapter" in model:
            open_model(name, model, f"judges.{name}.model")
    for name in params["suites"]:
        check_names(params, name)


def check_names(params: Mapping[str, Any], suite: str) -> None:
    """Raises :class:`ParamsError` where two numbers of a suite would have one name in files."""
    wanted = definition(params, "suites", suite)
    families = {}
    for judge in wanted["judges"]:
        given = definition(params, "judges", judge)
        families[judge] = read_judge(judge, given)[0].FAMILY
    problems = name_problems(wanted, families)
    if problems:
        raise ParamsError(
            f"suites.{suite}: {problems[0]}; rename the judge, perturbation or field"
        )


def write_project(folder: Path) -> None:
    """Writes a small project, and the versions that compute it. Raises :class:`UsageError` where one of
    its files exists."""
    from importlib.metadata import version

    targets = {
        path: folder / path.relative_to(TEMPLATE).with_name(RENAMED.get(path.name, path.name))
        for path in sorted(TEMPLATE.rglob("*"))
        if path.is_file()
    }
    constraints = folder / CONSTRAINTS
    present = [str(target) for target in (*targets.values(), constraints) if target.exists()]
    if present:
        raise UsageError(f"not written, since these exist: {', '.join(present)}")
    for path, target in targets.items():
        write_bytes(target, [path.read_bytes()])
    versions = {"refract-eval": version("refract-eval")} | library_versions()
    text = "".join(f"{name}=={number}\n" for name, number in versions.items())
    write_bytes(constraints, [text.encode()])


def default_project() -> Project:
    """The default params.yaml with its suites."""
    return read_project(default_folder())


def find_project() -> Project:
    """The project in the current folder if there is one, else the default."""
    here = Path.cwd()
    return read_project(here) if (here / PARAMS).is_file() else default_project()


def project_root() -> Path:
    """The current folder, for what needs a project. Raises :class:`UsageError` if it is none."""
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
    """A suite by its name in params.yaml or by its file: (name, definition). Raises :class:`UsageError`
    when it is neither."""
    known = project.params.get("suites") or {}
    if name in known:
        suite = definition(project.params, "suites", name)
        return name, {**suite, "file": str(project.folder / suite["file"])}
    path = Path(name)
    if path.is_file():
        return path.stem, {"file": name}
    raise UsageError(_unknown("suite and no file", name, known))


def find_judge(
    name: str, project: Project, model: str | None = None, base_url: str | None = None
) -> dict[str, Any]:
    """A judge by its name in params.yaml, by its kind, or by the name of a published one; ``llm`` is
    one of kind llm_refusal. ``model`` is the model that judges in place of the judge's own: by its name
    in params.yaml, or as ADAPTER:MODEL_ID; ``base_url`` its server. Raises :class:`UsageError`."""
    known = project.params.get("judges") or {}
    if name == MODEL_JUDGE and (model is not None or name not in known):
        if model is None:
            raise UsageError("--judge llm: name the model that judges with --judge-model")
        judge: dict[str, Any] = {"kind": "llm_refusal"}
    elif name in known:
        judge = definition(project.params, "judges", name)
    elif JUDGES.knows(name):
        judge = {"kind": name}
    elif name in (published := published_judges().names()):
        judge = {"kind": "published", "judge": name}
    else:
        raise UsageError(
            _unknown("judge", name, {*known, *JUDGES, *JUDGES.installed(), *published})
        )
    if model is not None:
        adapter, colon, model_id = model.partition(":")
        if "." in adapter and ":" in model_id:  # an adapter of another package: module:Class
            class_name, _, model_id = model_id.partition(":")
            adapter = f"{adapter}:{class_name}"
        judging = {"adapter": adapter, "model_id": model_id}
        if not colon:
            judging = {k: x for k, x in find_model(model, project).items() if k != "samples"}
        judge = judge | {"model": judging}
    if base_url is not None:
        if not isinstance(judge.get("model"), dict):
            raise UsageError("--judge-base-url: name the model that judges with --judge-model")
        judge = judge | {"model": judge["model"] | {"base_url": base_url}}
    return judge


def _unknown(what: str, name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    return f"no {what} {name!r}{nearest(name, names)}; there are: {', '.join(names)}"
