"""A measure over the commits of a branch, read from ``metrics/`` in git alone."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from refract.core.environment import git
from refract.core.errors import RefractError
from refract.core.jsonl import has_form, parse_json
from refract.core.params import DecisionSettings
from refract.core.progress import ran_file
from refract.core.types import Row
from refract.rates.comparison import DEFAULTS
from refract.rates.key import OVERALL, Key
from refract.rates.rate import Difference, Rate
from refract.results.current import differing, named
from refract.results.sources import (
    Result,
    ResultsError,
    Side,
    compare_sides,
    deciding_judge,
    read_tree,
    reader,
    tree_models,
)

Kind = Literal["suite", "model", "judge", "settings", "code"]
KINDS: tuple[Kind, ...] = ("suite", "model", "judge", "settings", "code")
# Of a suite's provenance, what is of its file, what is of its judge, and what is a result.
OF_FILE = ("sha256", "prompts_sha256")
OF_JUDGE = ("judges", "judge_error", "null_verdicts_sha256")
OF_RESULTS = ("responses_sha256", "verdicts_sha256", "unread")
# What is read of metrics/ran; see has_form.
RAN = {"judged": {"code": {"refract": str, "sha256": str}}}


class Commit(NamedTuple):
    """A commit: its full hash, and the day it was committed."""

    sha: str
    date: str

    @property
    def short(self) -> str:
        """The hash as messages have it."""
        return self.sha[:9]


@dataclass(frozen=True)
class Change:
    """A commit at which a rate or its interval is other than at the commit before.

    ``rate`` is None where the commit no longer has it. ``causes`` says what of the
    provenance differs from the commit before, by kind, as ``key: before → after``.
    ``difference`` is the paired one from the commit before, None where there is none
    of this measure, or where model and judging both differ."""

    key: Key
    commit: Commit
    rate: Rate | None
    is_first: bool = False
    causes: dict[Kind, list[str]] = field(default_factory=dict)
    difference: Difference | None = None

    @property
    def reason(self) -> str:
        """What changed, in a few words."""
        if self.rate is None:
            return "no longer measured"
        if self.is_first:
            return "first"
        return ", ".join(self.causes) or "nothing that is recorded"


class History(NamedTuple):
    """Changes, the oldest first, and a sentence for each reason why commits were
    skipped."""

    changes: list[Change]
    skipped: list[str]

    def by_series(self) -> dict[str, list[Change]]:
        """The changes of each model, suite and measure."""
        series: dict[str, list[Change]] = {}
        for change in self.changes:
            key = change.key
            series.setdefault(f"{key.model}, {key.suite}: {key.name}", []).append(change)
        return series


class _Model(NamedTuple):
    """What a commit has of one model: its results, what made them, the rates asked for."""

    result: Result
    ran: Row
    rates: dict[tuple[str, str], Rate]


def commits_of(root: Path, revision: str, last: int | None = None) -> list[Commit]:
    """The ``last`` commits of a branch or range that changed ``metrics/``, the oldest
    first; of what was merged, the merge. Raises :class:`ResultsError`."""
    options = ["--first-parent", "--reverse", "--format=%H %cs"]
    if last is not None:
        options.append(f"--max-count={last}")
    lines = git(root, "log", *options, "--end-of-options", revision, "--", "metrics")
    if lines is None:
        raise ResultsError(f"{revision!r} is not a git revision or range, such as main or v1..HEAD")
    commits = []
    for line in lines.splitlines():
        sha, _, date = line.partition(" ")
        commits.append(Commit(sha, date))
    if not commits:
        raise ResultsError(f"no commit of {revision} changed metrics/; commit it after dvc repro")
    return commits


def read_history(
    root: Path,
    commits: Sequence[Commit],
    measures: Collection[str] = (),
    models: Collection[str] = (),
    suites: Collection[str] = (),
    settings: DecisionSettings = DEFAULTS,
) -> History:
    """How rates of whole suites went over these commits.

    Without names these are all models and suites, and the refusal by category. Files are
    taken as they are; ``refract compare`` counts them again. Raises
    :class:`ResultsError` where nothing can be read."""
    changes: list[Change] = []
    skipped: dict[str, list[Commit]] = {}
    before: dict[str, _Model] = {}
    for commit in commits:
        now: dict[str, _Model] = {}
        try:
            grid = tree_models(root, commit.sha)
            wanted = [model for model in grid if not models or model in models]
            for model, result in read_tree(root, wanted, commit.sha).items():
                rates = _chosen(result.rates, measures, suites)
                now[model] = _Model(result, _read_ran(root, model, commit), rates)
        except RefractError as error:
            reason = str(error).replace(f" of commit {commit.short}", "")
            skipped.setdefault(reason, []).append(commit)
            continue
        for model in {**before, **now}:
            changes += _changes(commit, before.get(model), now.get(model), settings)
        before = now
    sentences = []
    for reason, unread in skipped.items():
        hashes = named([commit.short for commit in unread])
        sentences.append(f"skipped {len(unread)} of {len(commits)} commits ({hashes}): {reason}")
    if not changes:
        none = f"none of {len(commits)} commits that can be read has such a measure, model or suite"
        raise ResultsError("; ".join([none, *sentences]))
    return History(changes, sentences)


def _chosen(
    rates: Sequence[Rate], measures: Collection[str], suites: Collection[str]
) -> dict[tuple[str, str], Rate]:
    """The rates of whole suites by suite and name."""
    chosen = {}
    for rate in rates:
        is_main = rate.key.is_headline and rate.measure.metric == "first"
        wanted = rate.name in measures if measures else is_main
        if wanted and rate.group == OVERALL and (not suites or rate.suite in suites):
            chosen[rate.suite, rate.name] = rate
    return chosen


def _read_ran(root: Path, model: str, commit: Commit) -> Row:
    """What a commit says of the run that made a model's results; {} where it says
    nothing that can be read."""
    try:
        ran = parse_json(reader(root, commit.sha)(str(ran_file(model))) or b"{}")
    except ValueError:
        return {}
    return ran if has_form(ran, RAN) else {}


def _changes(
    commit: Commit, before: _Model | None, now: _Model | None, settings: DecisionSettings
) -> list[Change]:
    """What became of one model's rates since the commit before."""
    old_rates = before.rates if before else {}
    new_rates = now.rates if now else {}
    changes = []
    for name in {**old_rates, **new_rates}:
        old, new = old_rates.get(name), new_rates.get(name)
        if new is None:
            if old is not None:
                changes.append(Change(old.key, commit, None))
        elif old is None or before is None or now is None:
            changes.append(Change(new.key, commit, new, is_first=True))
        elif (old.value, old.shown) != (new.value, new.shown):
            causes = _causes(before, now, new.suite)
            difference = _paired(before.result, now.result, new.key, settings)
            changes.append(Change(new.key, commit, new, causes=causes, difference=difference))
    return changes


def _causes(before: _Model, now: _Model, suite: str) -> dict[Kind, list[str]]:
    """What differs between the provenance of two results of a suite, by kind."""
    old, new = _inputs(before, suite), _inputs(now, suite)
    causes = {}
    for kind in old.keys() & new.keys():
        lines = differing(old[kind], new[kind])
        if lines:
            causes[kind] = lines
    return {kind: causes[kind] for kind in KINDS if kind in causes}


def _inputs(model: _Model, suite: str) -> dict[Kind, Row]:
    """What the numbers of a suite were made of, by kind; without what is not known."""
    inputs: dict[Kind, Row] = {}
    if model.ran:
        code = model.ran["judged"]["code"]
        inputs["code"] = {"refract": code["refract"], "sha256": code["sha256"]}
    facts = model.result.provenance
    if not facts or suite not in facts["suites"]:
        return inputs
    about = dict(facts["suites"][suite])
    for name in OF_RESULTS:
        about.pop(name, None)
    inputs["suite"] = {name: about.pop(name) for name in OF_FILE}
    inputs["model"] = {"seed": facts["model"].get("seed"), **facts["model"]["identity"]}
    judging = {name: about.pop(name, None) for name in OF_JUDGE}
    inputs["judge"] = {**judging, **(deciding_judge(facts, about | judging) or {})}
    inputs["settings"] = {**about, "decisions": facts.get("decisions")}
    return inputs


def _paired(a: Result, b: Result, key: Key, settings: DecisionSettings) -> Difference | None:
    """The difference between two results on the prompts of both, of the measures of
    refusal that ``refract compare`` knows."""
    # Comparisons call discrimination, which is over two categories, by its measure.
    category = key.measure.category or key.measure.name
    if not (key.is_headline and key.measure.metric == "first"):
        return None
    sides = []
    for result in (a, b):
        lines = []
        for line in result.outcomes:
            if line["suite"] == key.suite and not line["perturbation"]:
                lines.append(line)
        sides.append(Side("", {key.model: result._replace(outcomes=lines)}))
    try:
        compared = compare_sides(sides[0], sides[1], settings)
    except ResultsError:  # no prompt of both, or model and judging both differ
        return None
    for difference in compared.differences:
        if difference.category == category:
            return difference
    return None
