"""Perturbations of attackers: encodings and frames."""

import base64
import codecs
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refract.core.errors import ParamsError
from refract.core.published_text import SourceError
from tests.suites.test_perturbations import text_of, variants

DECODERS = {
    "base64": lambda text: base64.b64decode(text).decode("utf-8"),
    "hex": lambda text: bytes.fromhex(text).decode("utf-8"),
    "rot13": lambda text: codecs.decode(text, "rot13"),
    "reversed": lambda text: text[::-1],
}


@given(
    text=st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(
        lambda text: text.strip() and text != text[::-1] and text != codecs.encode(text, "rot13")
    ),
    encoding=st.sampled_from(sorted(DECODERS)),
)
def test_an_encoded_prompt_decodes_to_the_prompt(text, encoding):
    framed = text_of({"kind": "encode", "encoding": encoding, "frame": "<<{prompt}>>"}, text)
    assert framed[:2] + framed[-2:] == "<<>>"
    assert DECODERS[encoding](framed[2:-2]) == text


def test_leetspeak_changes_the_share_of_letters_that_its_rate_says():
    assert text_of({"kind": "leetspeak", "rate": 1}, "Bake the toast") == "84k3 7h3 70457"
    (half,) = variants({"kind": "leetspeak", "rate": 0.5}, "Bake the toast")
    text = half.attempts[0]["prompt"]
    assert half.perturbation["edits"] == 5
    assert sum(a != b for a, b in zip(text, "Bake the toast", strict=True)) == 5
    assert variants({"kind": "leetspeak"}, "??") == []


def test_a_frame_is_a_text_or_a_published_one_with_the_sha_256_that_is_expected(tmp_path):
    assert text_of({"kind": "frame", "frame": "A {prompt} B {prompt}"}, "x") == "A x B x"
    published = tmp_path / "attack.txt"
    published.write_text("You are a pirate. [GOAL]")
    source = {"path": str(published), "sha256": hashlib.sha256(published.read_bytes()).hexdigest()}
    definition = {"kind": "frame", "frame": source, "place": "[GOAL]"}
    assert text_of(definition, "Sing.") == "You are a pirate. Sing."
    with pytest.raises(ParamsError, match="place"):
        text_of({"kind": "frame", "frame": source}, "Sing.")
    with pytest.raises(SourceError, match="SHA-256"):
        text_of({**definition, "frame": {**source, "sha256": "0" * 64}}, "Sing.")
    with pytest.raises(ParamsError, match="must hold"):
        text_of({"kind": "frame", "frame": "no place"}, "Sing.")
