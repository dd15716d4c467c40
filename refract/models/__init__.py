"""Model adapters, one module each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from refract.core.errors import ParamsError
from refract.core.jsonl import canonical_json
from refract.core.params import CommonSettings
from refract.core.registry import Registry, find
from refract.core.secrets import without_secrets
from refract.core.settings import read_settings
from refract.models.protocol import Model

ADAPTERS = Registry(
    {
        "anthropic": "refract.models.anthropic:Anthropic",
        "hf": "refract.models.hf:HF",
        "openai": "refract.models.openai:OpenAI",
        "recorded": "refract.models.recorded:Recorded",
        "synthetic": "refract.models.synthetic:Synthetic",
    },
    "refract.adapters",
    "Settings",
    "adapter",
    "version",
    "answer",
)
"""The value of ``adapter`` in params.yaml, and the class behind it.

To add one, subclass :class:`refract.models.protocol.Model` and add a line here.
Settings, error messages, the reference of params.yaml and the command line follow from
these.
"""

# Where models that were opened send prompts: `refract run` says it.
SERVERS: set[str] = set()

# Settings that determine how answers are generated; not every adapter has each of them.
GENERATION = (
    "max_tokens",
    "temperature",
    "top_p",
    "top_k",
    "system_prompt",
    "chat_template",
    "stop",
    "prefill",
    "enable_thinking",
    "reasoning_effort",
    "thinking_tokens",
    "loop_tokens",
)

# Settings that are texts for the model, or a file's columns: a key in them is part of
# what is measured.
TEXTS = (*GENERATION, "where")


def open_model(name: str, definition: Mapping[str, Any], where: str = "") -> Model:
    """The model of a definition: its adapter, with the definition's settings.

    ``where`` names the definition in messages, such as that of a judge's model; without it the
    definition is ``models.NAME``, which may say how many ``samples`` each prompt has. Raises
    :class:`ParamsError` for an unknown adapter or settings that it cannot use."""
    keys = () if where else tuple(CommonSettings.model_fields)
    where = where or f"models.{name}"
    common = {key: definition[key] for key in keys if key in definition}
    samples = read_settings(CommonSettings, where, common).samples
    own = {key: value for key, value in definition.items() if key not in keys}
    adapter, settings = _read(own, where)
    model: Model = adapter(name, settings)
    model.opened = name, definition
    if samples > 1 and not model.samples:
        raise ParamsError(
            f"{where}: samples: the model does not sample, so that {samples} answers to a prompt "
            "would be the same; set a temperature above 0, or samples: 1"
        )
    return model


def _read(definition: Mapping[str, Any], where: str) -> tuple[Any, BaseModel]:
    """A definition's adapter and its settings."""
    adapter = find(ADAPTERS, definition.get("adapter"), f"{where}: adapter")
    values = {key: value for key, value in definition.items() if key != "adapter"}
    settings = read_settings(adapter.Settings, where, values)
    checked = {key: value for key, value in values.items() if key not in TEXTS}
    places = without_secrets(checked)[1]
    if places:
        raise ParamsError(
            f"{where}: {places[0]} must hold no secret, since definitions are written to results; a "
            "key stands in an environment variable that api_key_env names (what came is not shown)"
        )
    server = getattr(settings, "server", None)
    if server:
        SERVERS.add(server)
    try:
        canonical_json(values)
    except (TypeError, ValueError) as error:
        raise ParamsError(f"{where}: a value cannot be expressed in JSON ({error})") from None
    return adapter, settings


def with_implied(value: Any) -> Any:
    """A definition, or whatever holds some, with what adapters imply where it says nothing
    (:attr:`refract.models.protocol.Model.IMPLIES`)."""
    if isinstance(value, list):
        return [with_implied(entry) for entry in value]
    if not isinstance(value, Mapping):
        return value
    full = {key: with_implied(inner) for key, inner in value.items()}
    adapter = full.get("adapter")
    if isinstance(adapter, str) and ADAPTERS.knows(adapter):
        implied = getattr(find(ADAPTERS, adapter, "adapter"), "IMPLIES", {})
        stated = {key: full[key] for key in full if full[key] is not None}
        full = {**full, **implied, **stated}
    return full


def generation_settings(name: str, definition: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of ``GENERATION`` that an adapter has, as JSON, with the values that
    a definition comes to. Raises :class:`ParamsError`."""
    own = {key: definition[key] for key in definition if key not in CommonSettings.model_fields}
    _, settings = _read(own, f"models.{name}")
    values = settings.model_dump(mode="json", exclude_none=True)
    return {key: values.get(key) for key in GENERATION if key in type(settings).model_fields}


def samples_of(model: Model, definition: Mapping[str, Any], suite: int | None) -> int:
    """How often a model answers each prompt of a suite whose own ``samples`` are
    ``suite``: once where it does not sample."""
    return (suite or int(definition.get("samples", 1))) if model.samples else 1


def identity_of(model: Model) -> dict[str, Any]:
    """All that determines a model's answers apart from the request, the adapter's code included."""
    return {
        "adapter": model.adapter,
        "adapter_version": model.version,
        **model.identity(),
    }


def check_keys(judges: Mapping[str, Mapping[str, Any]]) -> None:
    """Raises :class:`AdapterError` where the server of a judge's model asks for a key and there
    is none."""
    for name, definition in judges.items():
        if isinstance(definition.get("model"), Mapping):
            model = open_model(name, dict(definition["model"]), f"judges.{name}.model")
            getattr(model, "check_key", tuple)()
