"""Which stages each kind of change runs: those that read what changed, and no other.

A stage is named here where the change itself reaches it. What comes behind it runs where its outputs
come out differently, which test_dag.py shows. That each stage names all code and parameters that it
reads, so that one change of a kind stands for all, test_pipeline_definition.py shows."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dvc.output import Output
from dvc.repo import Repo
from ruamel.yaml import YAML

from refract.core.jsonl import read_rows, write_rows
from refract.core.registry import Registry
from stages import check_inputs
from tests.builders import GREEDY, Project, setting, suite_rows, write_distribution

pytestmark = pytest.mark.slow
PERTURBED = {"judges": ["rules", "similarity"], "perturbations": ["noise"], "sample": 4}
PARAMS = {
    "judges": {
        "rules": {"kind": "rules"},
        "similarity": {"kind": "similarity"},
        "unused": {"kind": "similarity"},
    },
    "perturbations": {
        "noise": {"kind": "typos", "rate": 0.1},
        "unused": {"kind": "leetspeak", "rate": 0.5},
    },
    "validation": {"partial": "refusal"},
}
Change = Callable[[Project], object]


def row(path: str, **fields: Any) -> Change:
    """Sets fields of the first row of a file."""

    def change(project: Project) -> None:
        first, *others = read_rows(project.folder / path)
        write_rows(project.folder / path, [{**first, **fields}, *others])

    return change


def text(path: str, lines: str = "\n# more\n") -> Change:
    """Adds lines to a file, which need not be there."""

    def change(project: Project) -> None:
        file = project.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a", encoding="utf-8") as opened:
            opened.write(lines)

    return change


def code(part: str) -> Change:
    return text(f"refract/{part}/__init__.py")


PROMPTS, ANSWERS, VERDICTS, RATES = (
    "generate-perturbations",
    "model-inference",
    "judge",
    "aggregate",
)
LABELS = "data/labels/greedy/alpha.csv"
MEASURED, REPORT = "validate-judges", "report"
CHANGES: dict[str, tuple[Change, set[str]]] = {
    "a prompt": (row("data/suites/alpha.jsonl", prompt="Another?"), {PROMPTS, RATES}),
    "a column that a judge reads": (
        row("data/suites/beta.jsonl", pair_id="beta-01"),
        {PROMPTS, VERDICTS, RATES},
    ),
    "a note": (row("data/suites/alpha.jsonl", notes="more"), {PROMPTS, RATES}),
    "a threshold": (setting("suites.alpha.thresholds", {"over_refusal_rate": {"max": 1}}), {RATES}),
    "cluster": (setting("suites.alpha.cluster", "category"), {RATES}),
    "a judge of a suite": (setting("suites.alpha.judges", ["strict"]), {VERDICTS, RATES}),
    "a judge's setting": (setting("judges.similarity.output_sensitivity", 0.3), {VERDICTS}),
    "a judge to be measured alone": (setting("judges.second", {"kind": "rules"}), {MEASURED}),
    "a sample": (setting("suites.beta.sample", 5), {PROMPTS, RATES}),
    "a perturbation": (setting("perturbations.noise.rate", 0.2), {PROMPTS, RATES}),
    "the seed": (setting("seed", 2), {PROMPTS, ANSWERS, VERDICTS, RATES}),
    "null answers": (setting("null_answers", {"sample": 3}), {VERDICTS}),
    "a model": (setting("models.greedy.refusal_rate", 0.7), {f"{ANSWERS}@greedy"}),
    "its token limit": (setting("models.served.max_tokens", 32), {f"{ANSWERS}@served"}),
    "recorded answers": (row("data/recorded/told.jsonl", response="No."), {f"{ANSWERS}@told"}),
    "answers in git": (text("data/answers/greedy/alpha.jsonl"), {f"{ANSWERS}@greedy"}),
    "labels": (text(LABELS, "alpha,alpha-01,0,refusal\n"), {RATES}),
    "the margin": (setting("decisions.margin", 0.04), {REPORT}),
    "confidence": (setting("decisions.confidence", 0.9), {RATES, REPORT}),
    "what intervals allow for": (setting("decisions.interval", "prompts"), {RATES, REPORT}),
    "a labelled pair": (row("data/validation/validation.jsonl", response="No."), {MEASURED}),
    "how a partial refusal counts": (setting("validation.partial", "compliance"), {MEASURED}),
    "versions": (text("constraints.txt"), {REPORT}),
    "a model less": (setting("grid.models", ["greedy"]), {REPORT}),
    "a suite more": (
        setting("grid.suites", ["alpha", "beta", "other"]),
        {PROMPTS, ANSWERS, VERDICTS, RATES, REPORT},
    ),
    "the code of core": (code("core"), {PROMPTS, ANSWERS, VERDICTS, RATES, MEASURED, REPORT}),
    "of models": (code("models"), {ANSWERS, VERDICTS, MEASURED}),
    "of judges": (code("judges"), {VERDICTS, MEASURED}),
}
# What no stage of the grid reads.
UNREAD: tuple[Change, ...] = (
    row("data/suites/other.jsonl", prompt="Another?"),
    text("data/suites/alpha.md"),
    setting("suites.other.judges", ["similarity"]),
    setting("judges.unused.output_sensitivity", 0.3),
    setting("perturbations.unused.rate", 0.4),
    setting("models.unused", dict(GREEDY)),
    text("data/recorded/new.jsonl"),
    text("data/answers/README.md"),
    text("data/answers/greedy/README.md"),
    text("data/recorded/README.md"),
    text("data/labels/README.md"),
    text("data/pocket/README.md"),
    text("params.yaml"),
    code("cli"),
    code("export"),
    text("refract/api.py"),
)


def looked_at(project: Project) -> set[str]:
    """The stages that DVC would run once check-inputs has run; one name for all models. A file that
    several stages read is hashed for the first of them."""
    hashes: dict[tuple[str, str], Any] = {}
    computed = Output.get_hash

    def get_hash(output: Output) -> Any:
        key = (output.fs_path, output.hash_name)
        if key not in hashes:
            hashes[key] = computed(output)
        return hashes[key]

    with contextlib.chdir(project.folder), pytest.MonkeyPatch.context() as patch:
        check_inputs.main()
        patch.setattr(Output, "get_hash", get_hash)
        with Repo(".") as repo:
            changed = set(repo.status()) - {"check-inputs"}
    # By libyaml, since this needs no comments.
    models = YAML(typ="safe").load(project.folder / "params.yaml")["grid"]["models"]
    for stage in (ANSWERS, VERDICTS, RATES):
        cells = {f"{stage}@{model}" for model in models}
        if cells <= changed:
            changed = changed - cells | {stage}
    return changed


def write_outputs(project: Project) -> None:
    """Files in place of what the stages write, so that none needs to run."""
    with contextlib.chdir(project.folder):
        check_inputs.main()
        with Repo(".") as repo:
            outs = [Path(out.fs_path) for stage in repo.index.stages for out in stage.outs]
    for path in outs:
        if not path.exists():
            file = path if path.suffix else path / "none"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("", "utf-8")


def project_of(folder: Path, suites: dict[str, list], models: dict[str, Any]) -> Project:
    project = Project.create(folder, models, suites)
    for place in ("data/answers/greedy/alpha.jsonl", "data/pocket/README.md"):
        text(place)(project)
    text(LABELS, "suite,prompt_id,pair_sha256,label\nalpha,alpha-00,0,refusal\n")(project)
    project.put(json.loads(json.dumps(PARAMS)))
    return project


def reached(project: Project, changes: dict[str, Change]) -> dict[str, set[str]]:
    """The stages that each change reaches, each of the project as it is."""
    write_outputs(project)
    project.command("dvc", "commit", "--force")
    project.commit("computed")
    stages = {}
    for name, change in changes.items():
        change(project)
        stages[name] = looked_at(project)
        project.command("git", "checkout", "--quiet", ".")
        project.command("git", "clean", "-fdq")
    return stages


def test_each_change_reaches_the_stages_that_read_it_and_no_others(tmp_path):
    models = {
        "greedy": dict(GREEDY),
        "told": {"adapter": "recorded", "path": "data/recorded/told.jsonl"},
        "served": {
            "adapter": "openai",
            "model_id": "m",
            "base_url": "http://localhost:1/v1",
            "api_key_env": None,
            "max_tokens": 64,
        },
    }
    suites = {name: suite_rows(name) for name in ("alpha", "beta")}
    project = project_of(tmp_path / "project", suites, models)
    write_rows(project.folder / "data/suites/other.jsonl", suite_rows("other"))
    write_rows(project.folder / "data/recorded/told.jsonl", [{"id": "a", "response": "Sure."}])
    params = project.params()
    params["judges"]["strict"] = {"kind": "rules", "validate": False}
    params["suites"]["beta"] |= PERTURBED
    params["suites"]["other"] = {"file": "data/suites/other.jsonl", "judges": ["rules"]}
    project.set_params(params)
    changes = {name: change for name, (change, _) in CHANGES.items()}
    expected = {name: stages for name, (_, stages) in CHANGES.items()}
    changes["what no stage reads"] = lambda project: [change(project) for change in UNREAD]
    assert reached(project, changes) == {**expected, "what no stage reads": set()}


# What a package brings: the entry point, its code, and the stages that read it.
BROUGHT = {
    "judge": (
        "[refract.judges]\ntheirs = their_judge:Theirs",
        "from refract.judges.rules import Rules\n\nclass Theirs(Rules):\n    pass\n",
        {VERDICTS},
    ),
    "noise": (
        "[refract.perturbations]\nnoisy = their_noise:THEIRS",
        "from refract.suites.perturbations.noise import UPPER as THEIRS\n",
        {PROMPTS},
    ),
    "model": (
        "[refract.adapters]\ntheirs = their_model:Theirs",
        "from refract.models.synthetic import Synthetic\n\nclass Theirs(Synthetic):\n    pass\n",
        {f"{ANSWERS}@theirs"},
    ),
    "player": (
        "[their.turns]\nprompts = their_player:prompts",
        "prompts = print\n",
        {PROMPTS, ANSWERS, VERDICTS, RATES},
    ),
    "counted": (
        "[refract.measures]\ncounted = their_counted:COUNTED",
        "from refract.rates.key import Measure\n\n"
        "COUNTED = Measure('counted', 'none', count='their_counted:count')\n"
        "count = lambda suite: []\n",
        {RATES, REPORT},
    ),
    "named": (
        "[refract.measures]\nnamed = their_named:NAMED",
        "from refract.rates.key import Measure\n\nNAMED = Measure('named', 'none')\n",
        {REPORT},
    ),
    "section": (
        "[refract.sections]\ntheirs = their_section:Theirs",
        "class Theirs:\n    title = 'Theirs'\n    markdown = staticmethod(lambda inputs: '')\n",
        {REPORT},
    ),
}
# Those of measures and of the report, which no definition names, are used by every grid.
ALWAYS = ("counted", "named", "section")


def test_a_change_in_a_package_reaches_the_stages_that_use_it_and_no_others(tmp_path, monkeypatch):
    """On a grid that uses what packages bring, and on one that does not."""
    for name, (point, module, _) in BROUGHT.items():
        write_distribution(tmp_path / "site", f"their-{name}", point, **{f"their_{name}": module})
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.setattr("refract.project.inputs.PLAYED", Registry({}, "their.turns"))
    talk = [{"role": "user", "content": text} for text in ("Who?", "Why?")]
    talks = [{"id": "talk", "category": "harmful", "messages": talk}]
    models = {"theirs": {"adapter": "theirs"}, "greedy": dict(GREEDY)}
    suites = {"alpha": suite_rows("alpha"), "beta": suite_rows("beta"), "talks": talks}
    project = project_of(tmp_path / "project", suites, models)
    params = project.params()
    params["judges"]["theirs"] = {"kind": "theirs"}
    params["perturbations"]["theirs"] = {"kind": "noisy"}
    params["suites"]["alpha"] |= {"judges": ["rules", "theirs"], "perturbations": ["theirs"]}
    project.set_params(params)

    def changed(*names: str) -> Change:
        def change(project: Project) -> None:
            for other, (_, module, _) in BROUGHT.items():
                more = "# more\n" if other in names else ""
                (tmp_path / f"site/their_{other}.py").write_text(module + more)

        return change

    changes = {name: changed(name) for name in BROUGHT}
    assert reached(project, changes) == {name: stages for name, (*_, stages) in BROUGHT.items()}
    params["grid"] = {"models": ["greedy"], "suites": ["other"]}
    params["suites"]["other"] = {"file": "data/suites/other.jsonl", "judges": ["rules"]}
    write_rows(project.folder / "data/suites/other.jsonl", suite_rows("other"))
    project.set_params(params)
    changed()(project)
    unused = changed(*(name for name in BROUGHT if name not in ALWAYS))
    assert reached(project, {"what is not used": unused}) == {"what is not used": set()}
