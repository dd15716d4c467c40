"""No key, password or token gets into what is written, wherever in a value it stands."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refract.core.errors import ParamsError
from refract.core.secrets import without_secrets
from refract.models import open_model
from tests.fuzz import fuzzed

HARMLESS = st.sampled_from(
    ["max_tokens", "temperature", "eos_token", "token_ids", "prompt_cache_key", "api_key_env",
     "authors", "tokenizer", "monkey", "keyboard", "x", "max_completion_tokens", "stop_token"]
)  # fmt: skip
SECRET_NAMES = st.sampled_from(
    ["api_key", "apiKey", "API-KEY", "x-auth-token", "Ocp-Apim-Subscription-Key", "hf_token", "token",
     "Authorization ", "x-team-token", "clientSecret", "password", "Cookie", "openai_apikey", "key",
     "aws_secret_access_key", "ａpi_key", "X-Amz-Security-Token", "AccessToken", "api_keys"]
)  # fmt: skip
SECRET = "q7ZsecretZ7q"
PLAIN = st.one_of(
    st.none(), st.booleans(), st.integers(), st.sampled_from(["", "no", "a b", "1.5", math.nan])
)


def nested(inner: Any) -> st.SearchStrategy[Any]:
    return st.recursive(
        inner,
        lambda parts: st.one_of(
            st.lists(parts, max_size=3), st.dictionaries(HARMLESS, parts, max_size=3)
        ),
        max_leaves=12,
    )


@st.composite
def holding_a_secret(draw: st.DrawFn) -> Any:
    """A secret in one of the forms it has, somewhere in a structure of harmless values."""
    name = draw(SECRET_NAMES)
    bare = name.strip()
    forms: list[Any] = [
        {name: SECRET}, {name: [{"x": [SECRET]}]}, {name: {"inner": SECRET}}, [bare, SECRET],
        ["run", f"--{bare}", SECRET], {"name": name, "value": SECRET},
        f"http://user:{SECRET}@host/v1", f"http://{SECRET}@host/v1",
        f"https://host/v1?a=1&{bare}={SECRET}&b=2", f"pretrained=x,{bare}={SECRET}",
        json.dumps({"a": {bare: SECRET}}), f"{bare}: Bearer {SECRET}", f"Bearer {SECRET}",
        f"sk-{SECRET}", {f"http://user:{SECRET}@host": 1},
    ]  # fmt: skip
    form = draw(st.sampled_from(forms))
    for _ in range(draw(st.integers(0, 5))):
        other = draw(nested(PLAIN))
        form = draw(st.sampled_from([[form, other], [other, form, other], {draw(HARMLESS): form}]))
    return form


@fuzzed(100)
@given(holding_a_secret())
def test_a_secret_at_any_depth_is_left_out_and_its_place_named(value):
    kept, places = without_secrets(value)
    assert SECRET not in json.dumps(kept)
    assert places
    assert SECRET not in str(places)
    assert without_secrets(kept)[0] == kept


@fuzzed(66)
@given(nested(PLAIN))
def test_what_holds_no_secret_is_unchanged(value):
    assert without_secrets(value) == (value, [])


def test_a_value_that_is_nested_too_deeply_is_left_out():
    value: Any = SECRET
    for _ in range(5000):
        value = [value]
    assert without_secrets(value) == ("[left out]", ["a value that is nested too deeply"])


SERVED = {"model_id": "m", "base_url": "http://localhost:1/v1", "api_key_env": None}


@fuzzed(20)
@given(holding_a_secret(), st.sampled_from(["openai", "anthropic"]))
def test_a_definition_with_a_secret_in_what_is_sent_is_refused_without_showing_it(value, adapter):
    definition = {"adapter": adapter, **SERVED, "extra_body": {"x": value}}
    with pytest.raises(ParamsError) as raised:
        open_model("m", definition)
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize("adapter", ["openai", "anthropic"])
@pytest.mark.parametrize(
    "changed",
    [
        {"base_url": f"http://user:{SECRET}@localhost/v1"},
        {"base_url": f"http://{SECRET}@localhost/v1"},
        {"base_url": f"http://user:{SECRET}/x@localhost/v1"},
        {"base_url": f"http://localhost/v1?key={SECRET}"},
        {"base_url": f"http://localhost/v1?v={SECRET}"},
        {"base_url": f"ftp://user:{SECRET}@localhost/v1"},
        {"extra_headers": {"x-team-token": SECRET}},
        {"extra_headers": {"x-api-key": [SECRET]}},
        {"extra_headers": {"Authorization ": f"Basic {SECRET}"}},
        {"api_key_env": f"sk-{SECRET}"},
        {"api_key_env": SECRET},
        {"api_key_env": "0123456789abcdef0123456789abcdef"},
        {"api_key": SECRET},
    ],
)
def test_a_secret_in_a_setting_is_refused_without_showing_it(adapter, changed):
    with pytest.raises(ParamsError) as raised:
        open_model("m", {"adapter": adapter, **SERVED, **changed})
    shown = str(raised.value).replace("v=" + SECRET, "")  # no name says that this is one
    assert SECRET not in shown
    assert "0123456789abcdef" not in shown


@pytest.mark.parametrize(
    "changed",
    [
        {"api_key_env": "OPENAI_API_KEY"},
        {"api_key_env": "my_key"},
        {"extra_body": {"stop_token_ids": [1], "prompt_cache_key": "a", "min_tokens": 5}},
        {"extra_headers": {"x-mine": "1", "anthropic-beta": "tokens-2024"}},
        {"system_prompt": "The password: swordfish. Key sk-1234567890abcdef."},
        {"base_url": "https://host.example:8443/team/v1/"},
    ],
)
def test_settings_that_hold_no_secret_are_taken(changed):
    open_model("m", {"adapter": "openai", **SERVED, **changed})
