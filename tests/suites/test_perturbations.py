"""Perturbations: what each kind makes of a text, and that a row's noise is its own."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refract.core.errors import ParamsError
from refract.core.registry import find
from refract.suites.perturbations import PERTURBATIONS, read_perturbation
from refract.suites.perturbations.characters import fallback_repetitions, inject, read_characters
from refract.suites.perturbations.noise import letters_of
from refract.suites.perturbations.swaps import WORDS
from refract.suites.perturbations.variants import RowKey, row_generator

DRAWN = sorted(kind for kind in PERTURBATIONS if find(PERTURBATIONS, kind, "kind").drawn)
TEXT = "In 2024 I can't find 3 of the 1,250 résumés; the barn clerk said: try https://a.org/x?y=1."


def variants(definition, features=TEXT, *, seed=42, suite="s", source_id="p1", name="n"):
    kind, settings = read_perturbation(name, definition)
    texts = {"prompt": features} if isinstance(features, str) else features
    return kind.variants(texts, settings, RowKey(seed, suite, source_id, name))


def text_of(definition, text, **row):
    """The one noisy text of a definition that gives one variant."""
    (variant,) = variants(definition, text, **row)
    (attempt,) = variant.attempts
    return attempt["prompt"]


def test_the_default_appends_carriage_returns_and_backspaces_with_three_fallbacks():
    made = variants({"kind": "char_injection"}, "Hello")
    assert [variant.label for variant in made] == ["U+000D-end", "U+0008-end"]
    repeated = [1000, 500, 250, 125]
    assert [a["prompt"] for a in made[0].attempts] == ["Hello" + "\r" * n for n in repeated]
    assert [fallback_repetitions(most) for most in (1, 3, 8)] == [[1], [3, 1], [8, 4, 2, 1]]
    named = {"kind": "char_injection", "feature": "prompt", "character": "U+0008"}
    assert made[1].perturbation == {**named, "position": "end", "repetitions": repeated}


def test_listed_repetitions_give_one_variant_per_dose_with_a_single_attempt():
    definition = {"kind": "char_injection", "characters": ["\r"], "repetitions": [1, 10, 100]}
    made = variants(definition, "Hello")
    assert [(variant.label, variant.attempts) for variant in made] == [
        ("U+000D-end-x1", ({"prompt": "Hello\r"},)),
        ("U+000D-end-x10", ({"prompt": "Hello" + "\r" * 10},)),
        ("U+000D-end-x100", ({"prompt": "Hello" + "\r" * 100},)),
    ]


@pytest.mark.parametrize(
    ("position", "repetitions", "expected"),
    [
        ("end", 3, "one two  three***"),
        ("start", 3, "***one two  three"),
        ("between_words", 3, "one* two**  three"),
        ("between_words", 1, "one two*  three"),
        ("between_words", 4, "one** two**  three"),
    ],
)
def test_a_character_stands_where_the_position_says_and_the_dose_is_the_total(
    position, repetitions, expected
):
    assert inject("one two  three", "*", repetitions, position) == expected


def test_one_feature_is_perturbed_at_a_time_and_the_others_stay():
    features = {"question": "Who?", "language": "English"}
    definition = {"kind": "char_injection", "characters": ["\r"], "repetitions": [2]}
    made = variants(definition, features)
    assert [(variant.label, variant.attempts) for variant in made] == [
        ("question-U+000D-end-x2", ({"question": "Who?\r\r", "language": "English"},)),
        ("language-U+000D-end-x2", ({"question": "Who?", "language": "English\r\r"},)),
    ]
    only = variants({**definition, "features": ["language"]}, features)
    assert [variant.perturbation["feature"] for variant in only] == ["language"]


def test_characters_are_literal_code_points_or_presets_and_each_is_used_once():
    characters = read_characters(["\r", "U+200B", "zero_width", "\r"])
    assert characters == ["\r", "\u200b", "\u200c", "\u200d", "\u2060", "\ufeff"]


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("upper", "Straße, don't", "STRASSE, DON'T"),
        ("lower", "Tell ME", "tell me"),
        ("title", "don't SHOUT at l’été", "Don't Shout At L’été"),
        ("punctuation", "Wait - don't (ever)!", "Wait dont ever"),
        ("punctuation", "either/or, yes...", "either or yes"),
        ("punctuation", "See (https://a.org/x?y=1.), ok?", "See https://a.org/x?y=1 ok"),
        ("punctuation", "Ask me@x.org: 3.5% of 1,250 is $44!", "Ask me@x.org 3.5% of 1,250 is $44"),
        ("punctuation", "first.\n\n- second", "first\n\n second"),
        ("punctuation", "10-20 mg at 10:30-11:00", "10 20 mg at 10:30 11:00"),
        ("punctuation", "Wait...what? yes--no 50%/60%", "Wait what yes no 50% 60%"),
        ("punctuation", "He said:“Go”. नमस्ते-दुनिया, 1990's", "He said Go नमस्ते दुनिया 1990s"),
    ],
)  # fmt: skip
def test_noise_without_a_draw_gives_the_known_text(kind, text, expected):
    assert text_of({"kind": kind}, text) == expected


@pytest.mark.parametrize(
    ("of", "text", "expected"),
    [
        ("gender", "He gave her his book; it is hers. I SAW HIM and her mother.",
         "She gave him her book; it is his. I SAW HER and his father."),
        ("gender", "A man and Mr. King", "A woman and Ms. Queen"),
        ("religion", "Is a Christian church for Christians?", "Is a Jewish synagogue for Jews?"),
        ("country", "A German, an Indian, a German.", "An Indian, a Greek, an Indian."),
    ],
)  # fmt: skip
def test_who_a_text_is_about_is_swapped_by_its_place_in_the_sentence(of, text, expected):
    definition = {"kind": "swap", "of": of}
    seen = {text_of(definition, text, source_id=str(number)) for number in range(3000)}
    assert expected in seen
    assert len(seen) == 1 or of != "gender"


@pytest.mark.parametrize(
    ("of", "text"),
    [("country", "İran'da nasıl"), ("gender", "hıs"), ("religion", "How do Chriſtians pray?")],
)
def test_letters_that_are_an_i_or_an_s_only_regardless_of_case_make_no_name(of, text):
    assert variants({"kind": "swap", "of": of}, text) == []


def test_a_letter_with_a_vowel_sign_behind_it_gets_no_typo():
    assert letters_of("नमस्ते ab กี้") == [0, 1, 7, 8]


def test_lists_of_swaps_are_as_long_as_each_other_and_name_nothing_twice():
    for rows in WORDS.values():
        assert len({len(row) for row in rows}) == 1
        forms = [form for row in rows for form in {form.removesuffix(" …").lower() for form in row}]
        assert len(forms) - len(set(forms)) <= 1  # his is his own, and hers


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("swap", {"ba"}),
        ("drop", {"a", "b"}),
        ("double", {"aab", "abb"}),
        ("keyboard", {"sb", "qb", "wb", "zb", "av", "an", "ag", "ah"}),
    ],
)
def test_each_typo_is_the_slip_it_is_named_after(operation, expected):
    definition = {"kind": "typos", "operations": [operation], "rate": 0.01}
    seen = {text_of(definition, "ab", source_id=str(number)) for number in range(200)}
    assert seen == expected


def test_the_rate_sets_how_many_letters_get_a_typo():
    words = " ".join(["plain words of some length"] * 10)  # 220 letters
    (variant,) = variants({"kind": "typos", "operations": ["keyboard"], "rate": 0.1}, words)
    (attempt,) = variant.attempts
    differing = sum(a != b for a, b in zip(words, attempt["prompt"], strict=True))
    assert differing == variant.perturbation["edits"] == 22


@pytest.mark.parametrize(
    ("kind", "text", "more"),
    [
        ("typos", "123 !?", {}),
        ("punctuation", "no marks", {}),
        ("punctuation", "?!", {}),
        ("homoglyphs", "123", {}),
        ("swap", "Indiana and the manual", {"of": "gender"}),
        ("char_injection", "Hello", {"position": "between_words"}),
    ],
)
def test_a_text_with_nothing_to_change_gives_no_variant_that_could_pass_as_robust(kind, text, more):
    assert variants({"kind": kind, **more}, text) == []


@pytest.mark.parametrize("kind", DRAWN)
def test_a_rows_noise_depends_on_seed_suite_id_name_and_feature_and_on_nothing_else(kind):
    definition = {"kind": kind}
    text = (
        "Please explain to me how India's modern steam engine turns the heat of coal into motion. "
        * 3
    )

    def noisy(**row):
        return [variant.attempts for variant in variants(definition, text, **row)]

    first = noisy()
    variants(definition, "another row in between", source_id="p0")
    assert noisy() == first
    for other in ({"seed": 43}, {"suite": "other"}, {"source_id": "p2"}, {"name": "other"}):
        assert noisy(**other) != first
    two = variants(definition, {"a": text, "b": text})
    assert {v.attempts[0]["a"] for v in two} != {v.attempts[0]["b"] for v in two}


def test_the_noise_of_a_known_row_keeps_its_bytes():
    """Pinned: a change here changes the prompts of every suite."""
    text = "Please explain how a modern steam engine turns heat into motion."
    assert row_generator(RowKey(42, "s", "p1", "n"), "prompt").random() == 0.3214037898280011
    assert {
        variant.label: variant.attempts[0]["prompt"]
        for kind in DRAWN
        for variant in variants({"kind": kind}, text)
    } == {
        "homoglyphs": "Рlease explain hоw a modern stеam engine turnѕ heat into motіon.",
        "leetspeak": "Pl3a53 explain how a mod3rn 5734m 3ngin3 turn5 he4t int0 mo710n.",
        "typos": "Please explain how a modrn steam engine turnns heat into motjon.",
    }


@given(
    kind=st.sampled_from(sorted(set(PERTURBATIONS) - {"repeat", "frame"})),
    texts=st.dictionaries(
        st.text(min_size=1, max_size=5),
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=60)
        | st.from_regex(r"([A-Za-z0-9é.,']{1,6} ){0,8}[a-z]{0,3}", fullmatch=True),
        min_size=1,
        max_size=3,
    ),
    seed=st.integers(0, 2**31),
)
def test_every_variant_differs_has_a_unique_safe_label_and_can_be_written(kind, texts, seed):
    definition = {"kind": kind}
    if kind == "char_injection":
        definition |= {"max_repetitions": 9, "position": ["end", "between_words"]}
    made = variants(definition, texts, seed=seed)
    assert len({variant.label for variant in made}) == len(made)
    for variant in made:
        assert re.fullmatch(r"[A-Za-z0-9+_.-]+", variant.label)
        feature = variant.perturbation["feature"]
        for attempt in variant.attempts:
            assert list(attempt) == list(texts)
            assert attempt[feature] != texts[feature]
            assert attempt == texts | {feature: attempt[feature]}
            assert "\0" not in attempt[feature]
            attempt[feature].encode("utf-8")
    assert made == variants(definition, texts, seed=seed)


@pytest.mark.parametrize(
    ("definition", "parts"),
    [
        ({"kind": "uper"}, ["'uper'", "did you mean 'upper'?"]),
        ({"kind": "typos", "operations": ["swap", "swap"]}, ["operations holds 'swap' twice"]),
        ({"kind": "typos", "operations": []}, ["keyboard, swap, drop or double", "[]"]),
        ({"kind": "char_injection", "characters": ["none"]}, ["presets: control, zero", "'none'"]),
        ({"kind": "char_injection", "characters": ["\0"]}, ["neither NUL nor", "U+0000"]),
        ({"kind": "char_injection", "repetitions": [5], "max_repetitions": 9},
         ["either repetitions or max_repetitions"]),
    ],
)  # fmt: skip
def test_a_definition_that_cannot_be_used_is_refused_with_the_value_and_what_is_allowed(
    definition, parts
):
    with pytest.raises(ParamsError, match=r"^perturbations\.noisy[: ]") as error:
        read_perturbation("noisy", definition)
    assert [part for part in parts if part not in str(error.value)] == []
