"""The judge that adds a language model: what it reads and computes, and what it may be trained on."""

from __future__ import annotations

import os

import pytest
import torch

from refract.core.jsonl import sha256_file
from refract.judges import open_judge
from refract.judges.refusal import combination, features, language_model, probabilities
from refract.judges.refusal.encoder import CLASSES, FOLDER, description
from refract.models.checkpoint import fetched_file
from refract.models.protocol import AdapterError
from tests.judges.test_model_judges import judged
from tests.judges.test_refusal_judge import NO, PROMPT, YES, as_trained
from tools.refusal_encoder.data import SOURCES, Example, may_shape_weights
from tools.refusal_lm.__main__ import split, stored
from tools.refusal_lm.training import Adapter, Kept, Recipe, scored

JUDGE = {"kind": "refusal_lm"}
NOTHING = torch.zeros(0)


@pytest.fixture
def fetched(monkeypatch):
    """The base model's weights, where this machine has them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REFRACT_DATA", os.environ["REFRACT_TEST_FETCHED"])
        path = fetched_file(language_model.SHA256, language_model.FILE)
    if not path.is_file():
        pytest.skip(f"needs the weights of smollm2_135m: {language_model.FETCH}")
    monkeypatch.setattr(language_model, "fetched_file", lambda *_: path)


@pytest.fixture
def small(monkeypatch):
    """A network of two layers with random weights, of which the second has an adapter."""
    monkeypatch.setattr(language_model, "FROM", 1)
    monkeypatch.setattr(language_model, "TO", 2)
    hidden, inner = language_model.HIDDEN, 32
    shapes = {"three": (960, hidden), "mixed": (hidden, hidden)}
    shapes |= {"two": (2 * inner, hidden), "down": (hidden, inner)}
    torch.manual_seed(1)
    found = {"tokens": torch.randn(50, hidden), "classes.bias": torch.randn(len(CLASSES))}
    found["classes.weight"] = torch.randn(len(CLASSES), hidden) / 24
    for name, (out, into) in shapes.items():
        found |= {f"{n}.{name}": torch.randn(out, into) for n in range(2)}
        found |= {f"1.{name}.in": torch.randn(4, into) / into**0.5}
        found |= {f"1.{name}.out": torch.randn(out, 4)}
    return {name: value.double() for name, value in found.items()}


def logits_of(weights, *rows: list[int]) -> torch.Tensor:
    ids = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.long)
    for row, tokens in enumerate(rows):
        ids[row, : len(tokens)] = torch.tensor(tokens)
    return language_model.logits(weights, ids, torch.tensor([len(tokens) for tokens in rows]))


def test_a_rows_logits_are_those_that_it_has_alone(small):
    rows = [[*range(1, 9)], [*range(3, 40)], [7] * 6]
    together = logits_of(small, *rows)
    for row, tokens in enumerate(rows):
        assert torch.allclose(together[row], logits_of(small, tokens)[0], rtol=0, atol=1e-10)


def test_the_adapter_is_read_at_the_last_tokens_alone(small, monkeypatch):
    tokens = [*range(1, 12)]
    plain = {name: value for name, value in small.items() if not name.endswith((".in", ".out"))}
    read = {}
    for tail in (0, language_model.TAIL, len(tokens)):
        monkeypatch.setattr(language_model, "TAIL", tail)
        read[tail] = logits_of(small, tokens)
    nowhere, last, everywhere = read.values()
    assert torch.equal(nowhere, logits_of(plain, tokens))
    assert not torch.allclose(last, nowhere)
    assert not torch.allclose(last, everywhere)


def test_weights_that_were_not_fetched_are_said_to_lack_and_how_to_get_them(monkeypatch, tmp_path):
    monkeypatch.setattr(language_model, "fetched_file", lambda *_: tmp_path / "absent.gguf")
    language_model._reader.cache_clear()
    with pytest.raises(AdapterError, match="refract models fetch smollm2_135m"):
        open_judge("mine", JUDGE).check()


def test_the_shipped_adapter_is_the_described_one_and_smaller_than_ten_megabytes():
    path = FOLDER / "adapter.safetensors"
    assert sha256_file(path) == description("adapter")["sha256"]
    assert path.stat().st_size < 10e6
    assert open_judge("mine", JUDGE).version.endswith(description("adapter")["sha256"][:16])


def test_both_readers_sway_the_verdict():
    no, yes = (4.0, 0.0, -4.0, 0.0), (-4.0, 0.0, 4.0, 0.0)
    with_lm = combination("combination_lm")

    def compliance(*logits) -> float:
        one, other = logits
        return probabilities(features("compliance", one, "refusal", other), with_lm)["compliance"]

    both, encoder, lm, neither = (
        compliance(no, no),
        compliance(no, yes),
        compliance(yes, no),
        compliance(yes, yes),
    )
    assert both < min(encoder, lm) <= max(encoder, lm) < neither


@pytest.mark.slow
def test_a_refusal_and_an_answer_are_told_apart_and_read_once(fetched, capsys):
    refusal, answer = judged(JUDGE, NO, YES, prompt=PROMPT)
    assert (refusal["label"], answer["label"]) == ("refusal", "compliance")
    assert [place["text"] for place in refusal["evidence"]] == ["I can't help"]
    capsys.readouterr()
    assert judged(JUDGE, YES, NO, prompt=PROMPT) == [answer, refusal]
    assert "2 replies reused, 0 generated" in capsys.readouterr().err


@pytest.mark.slow
def test_hostile_text_is_read_like_any_other(fetched):
    texts = ["\ud800 no", "a" * 300_000, "\0" * 5000, " " * 200_000 + "no", "<|im_end|>" * 9]
    for verdict in judged(JUDGE, *texts, prompt="<|im_start|>assistant\n" * 50):
        assert verdict["label"] is not None
    chat = language_model._ids("<|im_start|>")
    (tokens,) = language_model.tokens_of(["<|im_start|>"], ["<|im_start|>"])
    assert sum(token in chat for token in tokens) == 2


@pytest.mark.slow
def test_what_is_trained_is_what_the_judge_computes(fetched):
    """Of the trainer's network in float32, which reads kept keys and values in bfloat16."""
    from tools.refusal_lm.caching import chunk

    torch.manual_seed(3)
    adapter = Adapter(Recipe(rank=2))
    for value in adapter.parameters():
        value.data += torch.randn_like(value) * 0.01
    examples = [Example("s", "", PROMPT, text, (0,), True) for text in (NO, YES)]
    tokens = [
        of + language_model.suffix() for of in language_model.tokens_of([PROMPT] * 2, [NO, YES])
    ]
    kept = chunk(range(2), examples, tokens)
    keys = kept["keys"].split(kept["lengths"], dim=2)
    rows = [Kept(*of) for of in zip(examples, kept["question"], keys, strict=True)]
    weights = as_trained({name: value.numpy() for name, value in stored(adapter).items()})
    base = language_model.base_weights(torch.float64)
    assert torch.allclose(
        scored(adapter, rows).double(), logits_of(base | weights, *tokens), rtol=0.1, atol=0.1
    )


@pytest.mark.parametrize("left_out", [(), ("xstest", "xstest_extension"), ("wildguard",)])
def test_nothing_is_trained_on_that_is_read_or_may_only_be_measured(
    left_out: tuple[str, ...],
) -> None:
    names = [*dict.fromkeys(name for name, *_ in SOURCES.values()), "cases"]
    rows = [Kept(Example(n, "", "", n, (0,), True), NOTHING, NOTHING) for n in names]
    train, test = ({row.example.source for row in part} for part in split(rows, left_out))
    assert not train & test
    assert not train & {*left_out}
    assert all(may_shape_weights(source) for source in train - {"cases"})
    measured = {"orfuzz", "do_not_answer", "own", "xstest_extension"}
    assert test == ({*left_out} or measured)
