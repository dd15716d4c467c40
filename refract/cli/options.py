"""Options that several commands share, and how their values are read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Option
from typer.core import TyperCommand

from refract.core.errors import UsageError
from refract.core.vocabulary import Estimand

if TYPE_CHECKING:
    from typer._click.core import Context

    from refract.core.params import DecisionSettings


# Options that some commands put into a panel of their help.
judge_model = partial(
    Option,
    metavar="NAME|ADAPTER:MODEL_ID",
    help="The model that judges, such as hf:path/to/folder; alone it means --judge llm.",
)
judge_base_url = partial(
    Option, metavar="URL", help="Its server; default: its definition's or its provider's."
)
confidence_level = partial(
    Option, help="Confidence of intervals and decisions; default: .95, or the project's."
)

ConfidenceChoice = Literal[".90", ".95", ".99"]
Confidence = Annotated[ConfidenceChoice | None, confidence_level()]
NumbersFile = Annotated[Path | None, Option(help="Also write the numbers here (JSON).")]
AsJson = Annotated[Literal["table", "json"], Option("--format", help="How it is printed.")]
Models = Annotated[
    list[str] | None, Option("--model", help="Models of the grid: NAME,...; default: all.")
]
NoStore = Annotated[
    bool, Option("--no-store", help="Take no stored answers and verdicts, and store none.")
]
Suites = Annotated[list[str] | None, Option("--suite", help="Suites: NAME,...; default: all.")]
IntervalOf = Annotated[
    Literal["prompts", "prompts_and_judge"] | None,
    Option(
        "--interval",
        help="What intervals and decisions allow for: which prompts were drawn, and how far the judge "
        "is from labels on a model that has none, where that is known; or prompts alone. "
        "Default: what the project sets.",
    ),
]
EstimandOf = Annotated[
    Estimand | None,
    Option(
        "--estimand",
        help="What rates are about: prompts like these, of which a suite is a sample, or these prompts, "
        "where the noise of samples alone is left open. Default: what the project sets.",
    ),
]

# Our options, with the names that other tools give them.
OTHER_NAMES = {
    "--limit": "--sample --num-samples --max-samples --max-examples",
    "--samples": "--epochs --repeats --num-generations",
    "--suite": "--task --tasks --dataset",
    "--out": "--output --output-path --log-dir",
    "--rows": "--log-samples",
    "--max-tokens": "--max-new-tokens --max-gen-toks --max-length",
    "--system-prompt": "--system --system-instruction --system-message",
    "--base-url": "--api-base --model-base-url --url",
    "--judge-model": "--grader --scorer --judge-llm",
    "--set KEY=VALUE": "--model-args --generation-config --gen-kwargs",
    "--set device=VALUE": "--device",
    "--set batch_size=VALUE": "--batch-size",
    "--set top_p=VALUE": "--top-p",
}


class Hinted(TyperCommand):
    """A command that says what the option of another tool is called here."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Raises :class:`UsageError` for the name of another tool."""
        own: set[str] = set()
        for parameter in self.params:
            own.update(parameter.opts)
        for word in args:
            name = word.partition("=")[0]
            ours = our_name(name, own)
            if name.startswith("--") and name not in own and ours.split(" ")[0] in own:
                raise UsageError(f"there is no option {name}; it is called {ours} here")
        return super().parse_args(ctx, args)


def our_name(name: str, own: Iterable[str]) -> str:
    """What the option of another tool is called here; "" where it is not known."""
    plain = name.replace("_", "-")
    if plain in own:
        return plain
    for ours, others in OTHER_NAMES.items():
        if plain in others.split():
            return ours
    return ""


# What makes a project a project; no command writes over it.
PROJECT_FILES = ("params.yaml", "dvc.yaml", "dvc.lock")
# What the pipeline's commands read.
PIPELINE = ("metrics", "data/suites", "data/prompts", "data/responses", "data/verdicts")


def decided_by(
    settings: DecisionSettings, confidence: str | None, **changes: str | None
) -> DecisionSettings:
    """The settings of decisions, changed by the options that are not None."""
    update: dict[str, object] = {}
    for name, value in changes.items():
        if value is not None:
            update[name] = value
    if confidence:
        update["confidence"] = float(confidence)
    return settings.model_copy(update=update)


def keep_inputs(written: Mapping[str, Path | None], read: Iterable[Path | str | None]) -> None:
    """Refuses, before anything is done, to write over what a command reads.

    ``written`` are files by what messages call them, ``read`` files, and folders whose files are read.
    Raises :class:`UsageError`, also where two files to be written are one, or one is a folder.
    """
    inputs = [Path(path).resolve() for path in (*PROJECT_FILES, *read) if path]
    names: dict[Path, str] = {}
    for name, path in written.items():
        if path is None:
            continue
        target = path.resolve()
        if target.is_dir():
            raise UsageError(f"{name} {path} is a folder; name a file")
        if any(overwrites(target, source) for source in inputs):
            raise UsageError(f"{name} {path} would overwrite what is read; name another file")
        if target in names:
            raise UsageError(f"{names[target]} and {name} are one file, {path}; name two")
        names[target] = name


def overwrites(target: Path, source: Path) -> bool:
    """Whether writing ``target`` changes ``source``, or a file in it."""
    both = target.exists() and source.exists()
    return target == source or (both and (target.samefile(source) or source in target.parents))


def files_named(*definitions: object) -> list[Path]:
    """The files and folders here that definitions of params.yaml name."""
    from refract.project.inputs import named_path, texts_of

    paths = []
    for _, key, text in texts_of(list(definitions)):
        path = named_path(key, text)
        if path is not None:
            paths.append(path)
    return paths


def listed(values: Sequence[str] | None) -> list[str]:
    """The values of a repeatable option, each of which may hold several with commas."""
    parts = ",".join(values or ()).split(",")
    return [part.strip() for part in parts if part.strip()]


def mapping(option: str, pairs: Sequence[str] | None) -> dict[str, str]:
    """The values of a repeatable option of the form name=value. Raises :class:`UsageError`."""
    values = {}
    for pair in pairs or ():
        name, equals, value = pair.rpartition("=")
        if not equals or not name:
            raise UsageError(f"{option} takes name=value (got {pair!r})")
        values[name] = value
    return values
