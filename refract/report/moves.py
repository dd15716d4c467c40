"""What moved since the last numbers that git holds, and at which commit the numbers stand now.

Nothing here may enter a declared output of the pipeline: two clones of one commit can hold different
parts of its history, and their outputs are the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from refract.core.environment import git
from refract.core.params import decision_settings
from refract.core.showing import printable
from refract.rates.rate import Difference
from refract.report.wording import three
from refract.results.sides import compare_sides
from refract.results.sources import Result, ResultsError, Side, read_grid, read_revision, read_tree

SHOWN, TOLD = 8, 3  # differences in the page, and in the terminal
MEASURES = 6  # named where no share of refusals moved; the rest is counted
# How far back the numbers are looked for; each step is three calls of git.
STEPS = 50
# What decides the numbers, and the numbers.
WATCHED = ("constraints.txt", "data", "dvc.yaml", "metrics", "params.yaml", "refract", "stages")


class Commit(NamedTuple):
    """A commit: nine digits of its hash, its day (by its own clock), the first line of its message."""

    sha: str
    day: str
    subject: str


class Moves(NamedTuple):
    """The differences to ``against`` with most evidence, and of how many comparisons.

    ``rows`` are at most ``SHOWN``, smallest Holm p first, then the largest difference over the width of
    its interval. ``notes`` say what else differs. ``reason`` says why there are no rows.
    """

    against: Commit | None
    rows: list[Difference]
    compared: int
    notes: list[str]
    reason: str


def commit_now(root: Path) -> tuple[Commit, bool] | None:
    """The commit that is checked out, and whether inputs or numbers differ from it.

    None where there is no git, no repository, or no commit.
    """
    commit = _commit(root, "HEAD")
    if commit is None:
        return None
    changed = git(root, "--no-optional-locks", "status", "--porcelain", "--", *WATCHED)
    return commit, bool(changed)


def biggest_moves(root: Path) -> Moves:
    """The working tree's numbers against those of the last commit that held others."""
    listed = git(root, "rev-list", "--first-parent", "HEAD", "--", "metrics")
    if listed is None:
        return _nothing("There is no git history here to compare with.")
    try:
        tree = read_tree(root)
    except ResultsError as error:
        return _nothing(f"Nothing to compare: {error}.")
    now = _numbers_of_tree(root, list(tree))
    for sha in listed.split()[:STEPS]:
        then = _numbers_of_commit(root, sha)
        if then != now:
            differing = [path for path in now | then if now.get(path) != then.get(path)]
            return _moves(root, sha, tree, sorted(differing))
    if git(root, "rev-parse", "--is-shallow-repository") == "true\n":
        return _nothing(
            "This clone is shallow and holds no earlier numbers; git fetch --unshallow."
        )
    return _nothing("No earlier commit has other numbers.")


def moves_in_words(moves: Moves) -> list[str]:
    """What moved, for the terminal: since when, and the differences with most evidence."""
    if moves.against is None:
        return [f"what moved: {moves.reason}"]
    since = f"since {moves.against.sha} of {moves.against.day} (“{moves.against.subject}”)"
    if moves.reason:
        return [f"what moved {since}: {moves.reason}"]
    lines = [f"what moved most {since}, of {moves.compared} paired comparisons:"]
    for row in moves.rows[:TOLD]:
        where = ", ".join(filter(None, (row.model, row.suite, row.category, row.perturbation)))
        p = "" if row.p_adjusted is None else f", p (Holm) {row.p_adjusted:.2g}"
        shares = " → ".join(three(share or 0.0) for share in (row.first, row.second))
        lines.append(f"  {where}: {shares} refused{p}")
    return lines


def _moves(root: Path, sha: str, tree: Mapping[str, Result], differing: Sequence[str]) -> Moves:
    commit = _commit(root, sha)
    assert commit is not None  # git has just listed it
    try:
        before = Side(f"commit {commit.sha}", read_revision(root, sha))
        now = Side("these results", dict(tree))
        sides = compare_sides(before, now, decision_settings(root))
    except ResultsError as error:
        return Moves(commit, [], 0, [], f"No comparison: {error}.")
    compared = [row for row in sides.differences if row.n and not row.repeats]
    moved = sorted((row for row in compared if row.value), key=_evidence)
    reason = (
        "" if moved else f"No share of refusals moved; {_other_numbers(before, now, differing)}."
    )
    notes = [*sides.notes, *_prompts(sides.differences)]
    return Moves(commit, moved[:SHOWN], len(compared), notes, reason)


def _other_numbers(before: Side, now: Side, differing: Sequence[str]) -> str:
    """What moved where no paired share did: numbers of the tables, by measure; else the files that
    differ."""
    old, new = (
        {
            (model, rate.suite, rate.measure, rate.group): (
                *(rate.counts.successes, rate.counts.n, rate.value, rate.interval),
            )
            for model, result in side.results.items()
            for rate in result.rates
        }
        for side in (before, now)
    )
    counts = Counter(key[2] for key in old.keys() & new.keys() if old[key] != new[key])
    if not counts:
        files = _first(differing, "")
        return f"nor did another rate or interval; these files differ otherwise: {files}"
    named = sorted(counts, key=lambda measure: (-counts[measure], measure))
    measures = _first([f"{measure} ({counts[measure]})" for measure in named], " measures")
    return f"other numbers did, by rows of metrics/tables: {measures}"


def _first(names: Sequence[str], kind: str) -> str:
    more = len(names) - MEASURES
    return ", ".join(names[:MEASURES]) + (f" and {more} more{kind}" if more > 0 else "")


def _evidence(row: Difference) -> tuple[float, float]:
    """What moves are sorted by: Holm's p, then the difference over the width of its interval.

    By the difference alone, groups of a few prompts would come first.
    """
    if row.interval is None or row.value is None:
        return 1.0, 0.0
    p = 1.0 if row.p_adjusted is None else row.p_adjusted
    return p, -abs(row.value) / (row.interval.high - row.interval.low)


def _prompts(rows: Sequence[Difference]) -> list[str]:
    """Which prompts could not be paired, counted by suite."""
    words = {"only_a": "gone", "only_b": "new", "reworded": "reworded"}
    unpaired: dict[str, dict[str, set[str]]] = {}
    for row in rows:
        for key, word in words.items():
            ids = unpaired.setdefault(row.suite, {}).setdefault(word, set())
            ids.update(row.prompts.get(key, ()))
    return [
        f"{suite}: prompts without a partner: {counts}"
        for suite, kinds in unpaired.items()
        if (counts := ", ".join(f"{len(ids)} {word}" for word, ids in kinds.items() if ids))
    ]


def _nothing(reason: str) -> Moves:
    return Moves(None, [], 0, [], reason)


def _commit(root: Path, revision: str) -> Commit | None:
    text = git(root, "rev-list", "--max-count=1", "--format=%H%n%cs%n%s", revision, "--")
    if not text:
        return None
    _, sha, day, subject = text.split("\n")[:4]
    return Commit(sha[:9], day, printable(subject))


def _names(models: list[str]) -> list[str]:
    kinds = ("outcomes/{}.csv", "tables/{}.csv", "{}.json")
    return [f"metrics/{kind.format(model)}" for model in models for kind in kinds]


def _numbers_of_tree(root: Path, models: list[str]) -> dict[str, str]:
    """The hashes that git would give to the numbers of these models, by path."""
    paths = [path for path in _names(models) if (root / path).is_file()]
    hashes = git(root, "hash-object", "--", *paths) or ""
    return dict(zip(paths, hashes.split(), strict=False))


def _numbers_of_commit(root: Path, sha: str) -> dict[str, str]:
    """The same of a commit's grid; empty where it has none."""
    try:
        wanted = set(_names(read_grid(root, sha)))
    except ResultsError:
        return {}
    listed = git(root, "ls-tree", "-r", "-z", sha, "--", "metrics") or ""
    entries = (entry.split("\t", 1) for entry in listed.split("\0") if entry)
    return {path: entry.split()[2] for entry, path in entries if path in wanted}
