"""Options that several commands have, and how their values are read."""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar, get_type_hints

import typer
from typer.core import TyperCommand

from refract.core.errors import UsageError
from refract.core.vocabulary import Estimand

if TYPE_CHECKING:
    from typer._click.core import Context

    from refract.core.params import DecisionSettings

NumbersFile = Annotated[Path | None, typer.Option(help="Also write the numbers here (JSON).")]
JudgeModel = Annotated[
    str | None,
    typer.Option(
        metavar="NAME|ADAPTER:MODEL_ID",
        help="The model that judges, such as hf:path/to/folder; alone it means --judge llm.",
    ),
]
JudgeBaseUrl = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Its server; default: its definition's or its provider's."),
]
AsJson = Annotated[Literal["table", "json"], typer.Option("--format", help="How it is printed.")]
Models = Annotated[
    list[str] | None, typer.Option("--model", help="Models of the grid: NAME,...; default: all.")
]
Suites = Annotated[
    list[str] | None, typer.Option("--suite", help="Suites: NAME,...; default: all.")
]
Confidence = Annotated[
    Literal[".90", ".95", ".99"] | None,
    typer.Option(help="Confidence of intervals and decisions; default: .95, or the project's."),
]
IntervalOf = Annotated[
    Literal["prompts", "prompts_and_judge"] | None,
    typer.Option(
        "--interval",
        help="What intervals and decisions allow for: which prompts were drawn, and how far the judge "
        "is from people on a model that nobody labelled, where that is known; or prompts alone. "
        "Default: what the project sets.",
    ),
]

# A line of Args: a panel's title, or an option, what its value is called, and its help.
_OPTION = r"^    (?:\[(.+)\]|(\w+)(?: <(.+?)>)?:(?: (.*(?:\n {6}.*)*))?)$"
# What other tools call an option.
OTHER_NAMES = {
    other: ours
    for ours, others in {
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
    }.items()
    for other in others.split()
}
EstimandOf = Annotated[
    Estimand | None,
    typer.Option(
        "--estimand",
        help="What rates are about: prompts like these, of which a suite is a sample, or these prompts, "
        "where the noise of samples alone is left open. Default: what the project sets.",
    ),
]

Command = TypeVar("Command", bound=Callable[..., object])


def decided_by(
    settings: DecisionSettings,
    confidence: str | None,
    interval: str | None,
    estimand: str | None = None,
) -> DecisionSettings:
    """The settings of decisions, with what options say instead."""
    said: dict[str, object] = {"confidence": confidence and float(confidence)}
    said |= {"interval": interval, "estimand": estimand}
    return settings.model_copy(update={key: value for key, value in said.items() if value})


def documented(command: Command) -> Command:
    """A command with the ``Args`` of its docstring as the help of its arguments and options.

    An argument without a default is given by its place, others by ``--name``, unless the function says
    otherwise (``Annotated[Path, typer.Option()]``). ``name <VALUE>:`` says what its value is called, and
    a line ``[Title]`` puts those below it into a panel.
    """
    command.__doc__, _, about = (inspect.getdoc(command) or "").partition("\n\nArgs:\n")
    hints = get_type_hints(command, include_extras=True)
    panel = None
    for title, name, metavar, text in re.findall(_OPTION, about, re.MULTILINE):
        if title:
            panel = title
            continue
        needed = inspect.signature(command).parameters[name].default is inspect.Parameter.empty
        said = getattr(hints[name], "__metadata__", ())
        # A copy, since several commands have some options.
        about_it = copy.copy(said[0]) if said else typer.Argument() if needed else typer.Option()
        about_it.help = re.sub(r"\n *", " ", text) or about_it.help
        about_it.metavar = metavar or about_it.metavar
        about_it.rich_help_panel = panel
        kind = hints[name].__origin__ if said else hints[name]
        command.__annotations__[name] = Annotated[kind, about_it]
    return command


class Hinted(TyperCommand):
    """A command that says what an option is called here that other tools call otherwise."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Raises :class:`UsageError` for the name of another tool."""
        own = {name for parameter in self.params for name in parameter.opts}
        for word in args:
            name = word.partition("=")[0]
            if name.startswith("--") and name not in own:
                plain = name.replace("_", "-")
                ours = plain if plain in own else OTHER_NAMES.get(plain, "")
                if ours.split(" ")[0] in own:
                    raise UsageError(f"there is no option {name}; it is called {ours} here")
        return super().parse_args(ctx, args)


# What makes a project a project; no command writes over it.
PROJECT_FILES = (Path("params.yaml"), Path("dvc.yaml"), Path("dvc.lock"))
# What the pipeline's commands read.
PIPELINE = tuple(
    map(Path, ("metrics", "data/suites", "data/prompts", "data/responses", "data/verdicts"))
)


def keep_inputs(written: Mapping[str, Path | None], read: Iterable[Path | str | None]) -> None:
    """Refuses, before anything is done, to write over what a command reads.

    ``written`` are files by what names them, ``read`` files, and folders whose files are read. Raises
    :class:`UsageError`; also where two files to be written are one, or one is a folder.
    """
    inputs = [Path(path).resolve() for path in (*PROJECT_FILES, *(x for x in read if x))]
    names: dict[Path, str] = {}
    for what, path in written.items():
        if path is None:
            continue
        target = path.resolve()
        if target.is_dir():
            raise UsageError(f"{what} {path} is a folder; name a file")
        there = [file for file in inputs if target.exists() and file.exists()]
        if target in inputs or any(x.samefile(target) or x in target.parents for x in there):
            raise UsageError(f"{what} {path} would overwrite what is read; name another file")
        if other := names.get(target):
            raise UsageError(f"{other} and {what} are one file, {path}; name two")
        names[target] = what


def files_named(*definitions: object) -> list[Path]:
    """The files and folders here that definitions of params.yaml name."""
    from refract.project.inputs import named_path, texts_of

    named = (named_path(key, text) for _, key, text in texts_of(list(definitions)))
    return [path for path in named if path is not None]


def listed(values: Sequence[str] | None) -> list[str]:
    """The values of a repeatable option, each of which may hold several, separated by commas."""
    return [part.strip() for value in values or () for part in value.split(",") if part.strip()]


def mapping(option: str, pairs: Sequence[str] | None) -> dict[str, str]:
    """The values of a repeatable option of the form name=value. Raises :class:`UsageError`."""
    values = {}
    for pair in pairs or ():
        name, equals, value = pair.rpartition("=")
        if not equals or not name:
            raise UsageError(f"{option} takes name=value (got {pair!r})")
        values[name] = value
    return values
