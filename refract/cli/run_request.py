"""The options of ``refract run``, and what they ask for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Annotated

from typer import Option

from refract.cli.options import (
    NoStore,
    judge_base_url,
    judge_model,
    one_of,
    yaml_values,
)
from refract.core.errors import UsageError
from refract.core.secrets import without_secrets
from refract.core.types import Row
from refract.project import find_judges, find_model, find_project, find_suite, source_name
from refract.project.inputs import files_named

# Options that are settings of the model's adapter.
SETTINGS = ["adapter", "model_id", "path", "base_url", "system_prompt", "temperature", "max_tokens"]
# Options that change no number.
UNNAMED = ("out", "rows", "no_store")
JUDGING = "Who judges"
# Options in the panels of the help.
measured = partial(Option, rich_help_panel="What to measure")
of_model = partial(Option, rich_help_panel="With what model")
of_answers = partial(Option, rich_help_panel="How it answers")
of_judges = partial(Option, rich_help_panel=JUDGING)
of_output = partial(Option, rich_help_panel="Output")


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What was typed."""

    suite: Annotated[
        list[str],
        measured(metavar="NAME|FILE", help="A suite of params.yaml or a JSONL file. Repeatable."),
    ]
    limit: Annotated[
        int | None,
        measured(
            min=1,
            metavar="N",
            help="Only so many prompts of each suite, of each category its share; drawn by --seed.",
        ),
    ] = None
    model: Annotated[
        str | None,
        of_model(metavar="NAME", help="A model of params.yaml; other options override it."),
    ] = None
    adapter: Annotated[
        str | None,
        of_model(
            metavar="anthropic|hf|openai|recorded|synthetic",
            help="How it is reached; servers of any kind: openai and --base-url.",
        ),
    ] = None
    model_id: Annotated[
        str | None, of_model(metavar="ID", help="Folder, hub id or the provider's name for it.")
    ] = None
    base_url: Annotated[str | None, of_model(metavar="URL", help="Its server.")] = None
    path: Annotated[
        str | None,
        of_model(metavar="FILE", help="Answers of a recorded model."),
    ] = None
    name: Annotated[
        str | None,
        of_model(
            metavar="NAME", help="What results call it; default: its name or the end of its id."
        ),
    ] = None
    system_prompt: Annotated[str | None, of_answers(metavar="TEXT", help="System prompt.")] = None
    temperature: Annotated[
        float | None,
        of_answers(min=0, metavar="T", help="0 is greedy; above 0 each prompt is sampled."),
    ] = None
    max_tokens: Annotated[
        int | None, of_answers(min=1, metavar="N", help="Longer answers are cut off.")
    ] = None
    samples: Annotated[
        int | None,
        of_answers(
            min=1, metavar="K", help="Answers for each prompt; above 1 needs a temperature above 0."
        ),
    ] = None
    seed: Annotated[int, of_answers(metavar="N", help="Seed of every draw.")] = 0
    set_: Annotated[
        list[str] | None,
        of_answers(
            "--set",
            metavar="KEY=VALUE",
            help="Any other setting of the adapter (YAML), such as device=cuda. Repeatable.",
        ),
    ] = None
    judge: Annotated[
        list[str] | None,
        of_judges(
            metavar="NAME",
            help="A judge of params.yaml, a kind, or llm (--judge-model); default: refusal, which also "
            "stands before one that labels something else. Repeatable.",
        ),
    ] = None
    judge_model: Annotated[list[str] | None, judge_model(rich_help_panel=JUDGING)] = None
    judge_base_url: Annotated[str | None, judge_base_url(rich_help_panel=JUDGING)] = None
    out: Annotated[Path, of_output(metavar="FILE", help="The results (JSON).")]
    rows: Annotated[
        Path | None,
        of_output(
            metavar="FILE",
            help="Also prompts, answers and verdicts (JSONL); as NAME.rows.jsonl beside NAME.json they "
            "are checked and exported with it.",
        ),
    ] = None
    no_store: NoStore = False

    def command(self) -> list[str]:
        """The arguments of ``refract`` that say the same, but for what is written where, and shown."""
        words = ["run"]
        for option in fields(self):
            value = getattr(self, option.name)
            if option.name in UNNAMED or value in (None, option.default):
                continue
            name = "--" + option.name.strip("_").replace("_", "-")
            for part in value if isinstance(value, list | tuple) else [value]:
                words += [name, str(part)]
        return words


class RunRequest:
    """A model, named as results will name it, and judges for the suites of ``options``. Raises
    :class:`UsageError` where options do not go together."""

    def __init__(self, options: RunOptions) -> None:
        if options.model is None and options.adapter is None:
            raise UsageError(
                "name a model of params.yaml with --model, or an adapter with --adapter"
            )
        self.options = options
        self.project = find_project()
        self.definition: Row = {}
        if options.model is not None:
            self.definition |= find_model(options.model, self.project)
            adapter = self.definition.get("adapter")
            if options.adapter not in (None, adapter):
                raise UsageError(
                    f"--adapter {options.adapter}: the model {options.model!r} has adapter {adapter} in "
                    "params.yaml; leave one of --model and --adapter out"
                )
        for key in SETTINGS:
            value = getattr(options, key)
            if value is not None:
                # As params.yaml has it: 0 and 0.0 are two requests.
                is_whole = isinstance(value, float) and value.is_integer()
                self.definition[key] = int(value) if is_whole else value
        self.definition |= yaml_values("--set", options.set_)
        self.name = options.name or options.model or source_name(self.definition)
        if not self.name.strip() or not self.name.isprintable():
            raise UsageError(f"--name takes a printable text that is not empty (got {self.name!r})")
        if without_secrets(self.name)[1]:
            raise UsageError(
                "--name, or else the end of --model-id, must hold no secret: results are called by it"
            )
        self.judges = find_judges(
            options.judge,
            self.project,
            one_of("--judge-model", options.judge_model),
            base_url=options.judge_base_url,
        )

    def inputs(self) -> Iterator[Path]:
        """The files that are read."""
        yield from files_named(self.definition, self.judges)
        for suite in self.options.suite:
            yield from files_named(find_suite(suite, self.project)[1])
