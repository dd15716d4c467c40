"""Everything in the catalogues can be cited, and each paper once."""

from __future__ import annotations

import re

import pytest

from refract.core.params import read_yaml
from refract_published.citing import CATALOGUES, references


@pytest.mark.parametrize("path", CATALOGUES)
def test_everything_in_the_catalogues_can_be_cited(path):
    cited = {name for entry in references().values() for name in entry.get("of", ())}
    assert read_yaml(path).keys() <= cited


def test_every_reference_has_a_title_an_author_and_a_date_and_no_two_are_one_paper():
    numbers = [entry["eprint"] for entry in references().values() if "eprint" in entry]
    assert len(numbers) == len(set(numbers))
    for key, entry in references().items():
        assert {"title", "author"} <= entry.keys(), key
        assert "year" in entry or "url" in entry, key
        assert re.fullmatch(r"[a-z]+\d{4}\w*|giskard|natong", key), key
