"""One setting reaches a model at Azure, Bedrock or Vertex: addresses and keys, tried on loopback."""

from __future__ import annotations

import pytest

from refract.core.errors import ParamsError
from refract.models import open_model
from refract.models.protocol import AdapterError, Answer
from tests.builders import ask as request_of
from tests.builders import in_order
from tests.fault_server import CLOUDS, FaultServer

KEY = "key-of-the-cloud-0123"
# The client, its adapter, where the model is, and how its key is sent.
CLIENTS = {
    "azure": ("openai", CLOUDS[0], f"api-key: {KEY}"),
    "bedrock": ("anthropic", CLOUDS[1], f"authorization: Bearer {KEY}"),
    "vertex": ("anthropic", CLOUDS[2], f"authorization: Bearer {KEY}"),
}


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in ("AZURE_OPENAI_AD_TOKEN", "AWS_BEARER_TOKEN_BEDROCK", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AZURE_OPENAI_API_KEY", "CLOUD_KEY"):
        monkeypatch.setenv(name, KEY)
    monkeypatch.setenv("OPENAI_API_VERSION", "2024-10-21")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "r")
    monkeypatch.setenv("CLOUD_ML_REGION", "r")
    monkeypatch.setenv("ANTHROPIC_VERTEX_PROJECT_ID", "p")


def model(cloud: str, url: str = "http://127.0.0.1:9", **settings: object):
    own = {} if cloud == "azure" else {"api_key_env": "CLOUD_KEY"}
    definition = {"adapter": CLIENTS[cloud][0], "model_id": "m", "base_url": url, "client": cloud}
    return open_model("m", {**definition, **own, **settings})


def ask(model: object, *texts: str) -> list[Answer]:
    return in_order(model, list(map(request_of, texts)))


@pytest.mark.parametrize("client", CLIENTS)
def test_one_setting_finds_the_model_and_sends_the_key(client):
    _, path, key = CLIENTS[client]
    with FaultServer() as server:
        answers = ask(model(client, server.url), "hi", f"you sent {KEY}", "[[throttle*1]]")
        head, body = server.seen_headers[0], server.bodies[0]
    assert [answer.response for answer in answers] == [
        "echo: hi", "echo: you sent [key]", "echo: [[throttle*1]]",
    ]  # fmt: skip
    assert head.startswith(f"POST {path}")
    assert key.lower() in head.lower()
    assert ("api-version=2024-10-21" in head) is (client == "azure")
    assert [message["role"] for message in body["messages"]] == ["user"]
    assert body["max_tokens"] == 512


def test_the_identity_says_the_client_and_no_address_that_follows_from_the_environment():
    bedrock = {"adapter": "anthropic", "model_id": "m", "client": "bedrock"}
    identity = open_model("m", bedrock).identity()
    assert identity["client"] == "bedrock"
    assert "base_url" not in identity
    assert model("azure", "https://a.openai.azure.com").identity()["base_url"].startswith("https")
    plain = open_model("m", {"adapter": "anthropic", "model_id": "m"}).identity()
    assert "client" not in plain
    assert plain["base_url"] == "https://api.anthropic.com"


def test_without_a_key_the_package_looks_for_credentials_and_a_run_without_any_ends(monkeypatch):
    """Whichever package is missing, or what it finds missing, is said; no row is retried."""
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with FaultServer() as server:
        served = model("bedrock", server.url, api_key_env=None)
        with pytest.raises(AdapterError, match=r"models\.m: client bedrock: \w+Error: "):
            ask(served, "a", "b")
        assert server.arrived == 0
    monkeypatch.setenv("AZURE_OPENAI_AD_TOKEN", "token-of-entra")
    with FaultServer() as server:
        ask(model("azure", server.url, api_key_env=None), "a")
        assert "authorization: bearer token-of-entra" in server.seen_headers[0].lower()
    monkeypatch.delenv("OPENAI_API_VERSION")
    with pytest.raises(AdapterError, match="OPENAI_API_VERSION"):
        ask(model("azure"), "a")


@pytest.mark.parametrize(
    ("client", "settings", "says"),
    [
        ("azure", {"base_url": "https://api.openai.com/v1"}, "needs base_url: https://RESOURCE"),
        ("azure", {"client": "bedrock"}, "client must be azure, or null"),
        ("vertex", {"client": "azure"}, "client must be bedrock or vertex, or null"),
    ],
)
def test_a_client_that_cannot_be_used_is_refused(client, settings, says):
    with pytest.raises(ParamsError, match=says):
        model(client, **settings)
