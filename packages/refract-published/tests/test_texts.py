"""Published texts: taken out of their file by their hash, fetched once, checked when they are read."""

from __future__ import annotations

import hashlib
import subprocess
import zipfile
from pathlib import Path

import pytest
from pydantic import ValidationError

from refract.core.published_text import Source, SourceError
from refract.models.checkpoint import is_package
from refract_published.texts import copy_out, download, fetch, is_here, kept_at, read_text, text_in

MODULE = '''
"""A publisher's module that must never run."""
import sys
sys.exit("it was run")
PLAIN = "Judge {answer} now. {{braces}}\\n"
JOINED = ("one " + f"two {NAME} {{x}} " + "{three}")
STRIPPED = """
 text {q}
""".strip()
MADE = make("a text", other)
class Judge:
    PROMPTS: dict = {"a": ["of a class"]}
    @property
    def prefix(self) -> str:
        return "for robots"
def ask(question):
    template = f'Q: "{question}" ' "{as it is}" f"{question}"
    wrong = f"{question!r}"
'''
YAML = "value: |\n  Yes or no: {{ x }}\n\nlist:\n  - name: first\n"


def source_of(text: str, **place: str) -> Source:
    return Source(sha256=hashlib.sha256(text.encode()).hexdigest(), **place)


@pytest.mark.parametrize(
    ("path", "content", "text"),
    [
        ("judge.py", MODULE, "Judge {answer} now. {{braces}}\n"),
        ("judge.py", MODULE, "one two {NAME} {{x}} {{three}}"),
        ("judge.py", MODULE, "text {q}"),
        ("judge.py", MODULE, "of a class"),
        ("judge.py", MODULE, "for robots"),
        ("judge.py", MODULE, 'Q: "{question}" {{as it is}}{question}'),
        ("a.yaml", YAML, "Yes or no: {{ x }}\n"),
        ("a.yaml", YAML, "first"),
        ("a.json", '{"a": ["", "b"]}', "b"),
    ],
)
def test_a_text_is_taken_out_of_its_file_by_its_hash_without_running_it(path, content, text):
    assert text_in(source_of(text, path=path, at="there"), content.encode()) == text


CONSTANTS = "A = 1\n" * 2_000_000
ALIASES = "".join(
    f"{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9) if n else 'y'}]\n" for n in range(30)
)


@pytest.mark.parametrize(
    ("path", "at", "content", "why"),
    [
        ("judge.py", "MADE", MODULE, "none of the 19 texts in the file, and d6ae1ef5"),
        ("judge.py", "P", "P = ", "the file cannot be read: invalid syntax"),
        ("a.yaml", "P", "a: [", "the file cannot be read: not YAML"),
        ("a.txt", "P", "", "must be .py, .yaml or .json"),
        ("a.txt", None, "other", "SHA-256 is d9298a10d1b0735837d.*, and d6ae1ef5"),
        # Too large or too deep to be read.
        ("judge.py", "A", CONSTANTS, "too large to be read .12000000 characters, not 250000"),
        ("judge.py", "A", "A = " + "(" * 20_000 + "1" + ")" * 20_000, "the file cannot be read"),
        ("judge.py", "A", "A = 'a'" + "+'a'" * 50_000, "the file cannot be read"),
        ("a.yaml", "A", "[" * 5_000, "the file cannot be read"),
        ("a.yaml", "A", ALIASES, "none of the 1 texts in the file"),
    ],
    ids=lambda value: str(value)[:12],
)
def test_a_file_without_the_text_is_an_error_that_says_why(path, at, content, why):
    with pytest.raises(SourceError, match=f"{path}.*{why}"):
        text_in(source_of("{question!r}", path=path, at=at), content.encode())


@pytest.mark.parametrize(
    ("offset", "field", "value"), [(8, 6, 1), (10, 8, 99)], ids=["encrypted", "unknown compression"]
)
def test_a_wheel_that_cannot_be_read_ends_in_a_message(tmp_path, offset, field, value):
    path = tmp_path / "a.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("judge/prompts.py", MODULE)
    data = bytearray(path.read_bytes())
    data[data.rfind(b"PK\x01\x02") + offset] = value
    data[data.find(b"PK\x03\x04") + field] = value
    path.write_bytes(data)
    with pytest.raises(SourceError, match="cannot be read"):
        fetch([source_of(TEXT, **PLACE)], path)
    with pytest.raises(SourceError, match="cannot be read"):
        copy_out(path, "judge/prompts.py", "0" * 64, tmp_path / "out")


@pytest.mark.parametrize("name", ["-r==1", "--index-url==1", "-==1", ".==1"])
def test_no_package_is_named_like_an_option_of_pip(monkeypatch, name):
    with pytest.raises(ValidationError, match="package"):
        Source(package=name, path="a.py", sha256="0" * 64)
    assert not is_package(name)
    asked = []
    monkeypatch.setattr(subprocess, "run", lambda command, **_: asked.append(command) or FAILED)
    with pytest.raises(SourceError):
        download("a==1", Path("nowhere"))
    assert asked[0][-2:] == ["--", "a==1"]


FAILED = subprocess.CompletedProcess([], 1, "", "ERROR: no")


@pytest.fixture
def wheel(tmp_path, monkeypatch) -> Path:
    """A publisher's wheel in the one folder that pip is set to."""
    path = tmp_path / "index/someones_judge-1.0-py3-none-any.whl"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("judge/prompts.py", MODULE)
        folder = "someones_judge-1.0.dist-info"
        archive.writestr(f"{folder}/METADATA", "Name: someones-judge\nVersion: 1.0\n")
        archive.writestr(
            f"{folder}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{folder}/RECORD", "")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(path.parent))
    return path


TEXT = "Judge {answer} now. {{braces}}\n"
PLACE = {"package": "someones-judge==1.0", "path": "judge/prompts.py", "at": "PLAIN"}


def test_a_package_is_fetched_by_the_users_settings_of_pip_once(wheel):
    source = source_of(TEXT, **PLACE)
    assert not is_here(source)
    assert fetch([source]) == [source]
    wheel.unlink()
    assert fetch([source]) == []
    assert (is_here(source), read_text(source)) == (True, TEXT)


def test_a_wheel_that_was_got_elsewhere_serves_too(wheel, tmp_path):
    elsewhere = wheel.rename(tmp_path / wheel.name)
    source = source_of(TEXT, **PLACE)
    with pytest.raises(SourceError, match=r"judge==1.0 cannot be downloaded .*--from FILE"):
        fetch([source])
    assert not is_here(source)
    fetch([source], elsewhere)
    assert read_text(source) == TEXT


def test_a_changed_text_is_neither_kept_nor_used(wheel):
    other = Source(sha256="0" * 64, **PLACE)
    with pytest.raises(SourceError, match=f"and {'0' * 64} is expected"):
        fetch([other])
    assert not kept_at(other).exists()
    source = source_of(TEXT, **PLACE)
    fetch([source])
    kept_at(source).write_text(TEXT + " ")
    with pytest.raises(SourceError, match="was changed: delete it and fetch again"):
        read_text(source)
