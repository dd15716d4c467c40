"""Files of data sets on the Hugging Face hub, from a hub on loopback."""

from __future__ import annotations

import http.server
import json
import threading
import time
from pathlib import Path

import pytest

from refract.core.jsonl import read_rows

COMMIT = "0123456789abcdef0123456789abcdef01234567"
ROWS = b'{"prompt": "Is it safe?", "category": 3, "category_text": "Kitchens"}\n'


OPEN, GATED = "/datasets/owner/open/resolve/", "/datasets/owner/gated/"


class Hub(http.server.BaseHTTPRequestHandler):
    """A hub with the data set owner/open, which has one commit, and owner/gated."""

    def log_message(self, *arguments: object) -> None: ...

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        revision, _, name = path.removeprefix(OPEN).partition("/")
        status, content, headers = 404, b"", {"X-Error-Code": "RepoNotFound"}
        if path.startswith("/api/datasets/owner/open"):
            status, content = 200, json.dumps({"id": "owner/open", "sha": COMMIT}).encode()
            headers = {"Content-Type": "application/json"}
        elif path.startswith(GATED):
            status, headers = 403, {"X-Error-Code": "GatedRepo"}
        elif path.startswith(OPEN) and revision not in ("main", "v1", COMMIT):
            headers = {"X-Error-Code": "RevisionNotFound"}
        elif path.startswith(OPEN) and name != "data/test.jsonl":
            headers = {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": COMMIT}
        elif path.startswith(OPEN):
            status, content, headers = 200, ROWS, {"X-Repo-Commit": COMMIT, "ETag": '"abc"'}
        self.send_response(status)
        for header in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(*header)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    do_HEAD = do_GET


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """Points huggingface_hub to a hub of the test's own, with an empty cache."""
    from huggingface_hub import constants

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(constants.ENDPOINT, address)
    monkeypatch.setattr(constants, "ENDPOINT", address)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)  # between its tries
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    yield server
    server.shutdown()
    server.server_close()


def imported(cli, name: str = "data/test.jsonl", dataset: str = "owner/open", revision: str = "v1"):
    return cli(
        *("import-suite", "falsereject", name, "--dataset", dataset, "--revision", revision),
        *("--out", "suite.jsonl"),
    )


def test_a_file_of_a_data_set_is_imported_and_its_card_names_the_commit(cli, hub):
    done = imported(cli)
    assert done.code == 0, done.err
    (row,) = read_rows(Path("suite.jsonl"))
    assert (row["prompt"], row["area"]) == ("Is it safe?", "Kitchens")
    address = f"https://huggingface.co/datasets/owner/open/blob/{COMMIT}/data/test.jsonl"
    assert f"- The file is {address}." in Path("suite.md").read_text("utf-8")


def test_a_commit_that_was_fetched_once_needs_no_hub_and_anything_else_says_how_to_go_on(cli, hub):
    assert imported(cli, revision=COMMIT).code == 0
    before = Path("suite.jsonl").read_bytes()
    hub.shutdown()
    hub.server_close()
    assert imported(cli, revision=COMMIT).code == 0
    assert Path("suite.jsonl").read_bytes() == before
    done = imported(cli, revision="v1")
    assert done.code == 2
    assert "the hub cannot be reached from here" in done.err


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"name": "absent.csv"}, "has no file 'absent.csv'; see https://huggingface.co/datasets/o"),
        ({"revision": "v2"}, "no such revision; see https://huggingface.co/datasets/owner/open/c"),
        ({"dataset": "owner/none"}, "the hub has no such data set, or asks who you are"),
        ({"dataset": "owner/gated"}, "gated: accept its terms at https://huggingface.co/datasets/"),
        ({"dataset": "a/b/c"}, "not a data set of the form owner/name"),
    ],
)
def test_what_the_hub_does_not_give_is_an_error_that_says_what_to_do(cli, hub, asked, message):
    done = imported(cli, **asked)
    assert done.code == 2
    assert message in done.err.replace("\n", " ")
