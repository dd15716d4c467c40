"""Around a model's turn: a prefill, thinking with a budget of its own, options of chat templates."""

from __future__ import annotations

import json

import pytest

from refract.core.errors import ParamsError
from refract.core.jsonl import sha256_json
from refract.models import identity_of, open_model, turn
from refract.models.protocol import AdapterError
from tests.fault_server import FaultServer
from tests.small_models import (
    SPECIAL,
    TEMPLATE,
    answers,
    ask,
    model,
    save_model,
    save_tokenizer,
    tokens_of,
)


def served(adapter: str, server: FaultServer, **settings):
    return open_model("m", server.model(adapter=adapter, **settings))


def one(adapter, text: str = "What is a lichen?"):
    ((_, answer),) = adapter.answer([ask(text)])
    return answer


# Identities


@pytest.mark.parametrize(
    ("definition", "identity"),
    [
        (
            {
                "adapter": "hf", "model_id": "owner/name",
                "revision": "0123456789abcdef0123456789abcdef01234567",
                "system_prompt": "Be brief.", "reasoning": ["<think>", "</think>"],
                "temperature": 0.7, "top_p": 0.9,
            },
            "6273aebc036aa53e612bf095f845faa39af35bd52e6e7002ae14bcfcf039dd77",
        ),
        (
            {"adapter": "openai", "model_id": "m", "system_prompt": "Be brief."},
            "56ae1a7b073f784678492613a4ca2675a29e7fde49c32d46e1cd43ac6cf04b6d",
        ),
        (
            {"adapter": "anthropic", "model_id": "m"},
            "2fecbd0b5a0bff94c82ff3b95f0c13f94a5778ae7c0d01448086d37202a618ac",
        ),
    ],
)  # fmt: skip
def test_definitions_from_before_these_settings_keep_their_identity(definition, identity):
    assert sha256_json(identity_of(open_model("x", definition))) == identity


# A turn that was begun


def test_the_model_goes_on_from_the_prefill_and_the_answer_is_the_whole_turn(tiny):
    begun, plain = model(tiny, prefill="Sure, ", max_tokens=8), model(tiny, max_tokens=8)
    (answer,) = answers(begun, [ask("Hello")])
    assert answer.response.startswith("Sure, ")
    assert answer.prompt_tokens == answers(plain, [ask("Hello")])[0].prompt_tokens + len("Sure, ")
    # The same text as the end of a prompt without a template gives the same continuation.
    bare = model(tiny, chat_template=False, max_tokens=8)
    begin = "<|user|>Hello</s><|assistant|>Sure, "
    (continued,) = answers(bare, [ask(begin)])
    assert answer.response == "Sure, " + continued.response


def test_a_server_is_sent_the_begun_turn_last_and_one_that_does_not_go_on_is_no_answer():
    with FaultServer() as server:
        answer = one(served("openai", server, prefill="Sure,"))
        nothing = one(served("openai", server, prefill="[[empty]]"))
        sent = server.bodies[0]
    assert sent["messages"][-1] == {"role": "assistant", "content": "Sure,"}
    assert (sent["continue_final_message"], sent["add_generation_prompt"]) == (True, False)
    assert (answer.response, nothing.response) == ("Sure,echo: Sure,", "")


@pytest.mark.parametrize(
    ("definition", "says"),
    [
        ({"adapter": "openai", "prefill": "Sure"}, "vLLM and SGLang do"),
        ({"adapter": "anthropic", "prefill": "Sure "}, "must not end in white space"),
    ],
)
def test_what_cannot_work_is_rejected_with_the_reason(definition, says):
    with pytest.raises(ParamsError, match=says):
        open_model("m", {"model_id": "m", **definition})


# Options of the chat template


def test_the_template_reads_whether_to_think_and_with_what_effort(copy):
    options = "{% if enable_thinking is defined and not enable_thinking %}<no>{% endif %}"
    save_tokenizer(copy, template=TEMPLATE + options + "{{ reasoning_effort }}")

    def length(**settings) -> int:
        return answers(model(copy, max_tokens=2, **settings), [ask("Hi")])[0].prompt_tokens

    plain = length()
    assert length(enable_thinking=True) == plain
    assert length(enable_thinking=False) == plain + len("<no>")
    assert length(reasoning_effort="high") == plain + len("high")


def test_an_option_that_the_template_does_not_read_is_an_error(tiny):
    with pytest.raises(AdapterError, match=r"does not read enable_thinking.*leave it out"):
        answers(model(tiny, enable_thinking=False), [ask("Hi")])


DATED = (
    "{% if strftime_now is defined %}{{ strftime_now('%d %b %Y') }}, "
    '{% set hour = strftime_now( "%H:%M" ) %}{{ hour }}{% endif %}'
)


def test_a_template_that_asks_for_the_date_is_told_one_day_which_is_said_and_recorded(copy, caplog):
    save_tokenizer(copy, template=DATED + TEMPLATE)
    adapter = model(copy, max_tokens=1, arithmetic="fast")
    tokens = tokens_of(adapter, ask("Hi"))
    text = adapter.prompting.tokenizer.decode(tokens)
    assert text.partition("<s>")[0] == "26 Jul 2024, 00:00"
    answers(adapter, [ask("Hi")])
    assert adapter.runtime["template_date"] == "2024-07-26"
    assert "asks for the date and is told 2024-07-26" in caplog.text
    named = turn.at_fixed_day("models.m", {"default": DATED, "tool_use": "-"})
    assert [*named] == ["default", "tool_use"]
    assert "'26 Jul 2024'" in named["default"]


@pytest.mark.parametrize(
    "adapter", [{"adapter": "hf"}, {"adapter": "openai", "base_url": "http://h"}]
)
def test_a_prefill_that_leaves_open_whether_it_ends_thinking_is_refused(adapter):
    given = adapter | {"model_id": "m", "reasoning": ["<t>", "</t>"]}
    for clear in ("<t>", "<t></t>", "<t>a<t>b</t>", "<t><t></t></t>", '"<t>"'):
        open_model("m", given | {"prefill": clear})
    with pytest.raises(ParamsError, match="opens thinking 2 times and closes it 1; write <t> once"):
        open_model("m", given | {"prefill": "<t> <t></t>"})


def test_generation_settings_that_are_not_applied_are_said_and_recorded(copy, caplog):
    stated = {"repetition_penalty": 1.3, "temperature": 0.7, "do_sample": True, "top_k": 1}
    stated |= {"forced_bos_token_id": 0, "no_repeat_ngram_size": 1, "min_length": 0}
    stated |= {"max_length": 20, "eos_token_id": [2, 7], "num_beams": 1, "bad_words_ids": []}
    (copy / "generation_config.json").write_text(json.dumps(stated))
    greedy = model(copy, max_tokens=1, arithmetic="fast")
    sampled = model(copy, max_tokens=1, arithmetic="fast", temperature=0.7)
    for adapter in (greedy, sampled):
        answers(adapter, [ask("Hi")])
    said = [adapter.runtime["not_applied"] for adapter in (greedy, sampled)]
    others = "forced_bos_token_id 0, no_repeat_ngram_size 1, repetition_penalty 1.3"
    assert said == [f"do_sample True, {others}, temperature 0.7, top_k 1", others + ", top_k 1"]
    assert f"{said[0]}: not applied" in caplog.text


@pytest.mark.parametrize(
    "template",
    [
        "{{ strftime_now(bos_token) }}",
        "{% set now = strftime_now %}{{ now('%d') }}",
        "{{ ['a', 'b'] | random }}",
        "{{ [['a', 'b']] | map('random') | first }}",
        "{{ lipsum() }}",
    ],
)
def test_a_template_that_cannot_be_fixed_in_time_is_refused(copy, template):
    save_tokenizer(copy, template=template + TEMPLATE)
    with pytest.raises(AdapterError, match="would not be the same tomorrow; set chat_template"):
        answers(model(copy), [ask("Hi")])


def test_the_answer_has_its_tokens_behind_thinking(copy):
    save_tokenizer(copy, template=TEMPLATE + "<think>")
    asked = [ask("Hello there, you")]
    (free,) = answers(model(copy, max_tokens=24), asked)
    end = next(c for c in free.response[4:16] if c.isascii() and free.response.count(c) == 1)
    thinks = {"thinking_tokens": 21, "reasoning": ["<think>", end]}
    (answer,) = answers(model(copy, max_tokens=3, **thinks), asked)
    before, _, behind = free.response.partition(end)
    assert (answer.thinking, answer.response) == (before.strip(), behind.lstrip())
    assert (answer.completion_tokens, answer.finish_reason) == (24, "length")


# Where a turn begins and ends by the checkpoint's own template


ENDED_OTHERWISE = TEMPLATE.replace("{{ eos_token }}", "<|system|>\n")
# Written where an assistant's turn stands, and not where one is to come.
UNOPENED = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{{ eos_token }}{% endfor %}"
# As Mistral's: nothing stands before an assistant's words.
WITHOUT_ROLE = (
    "{% for m in messages %}{% if m.role == 'user' %}<|user|>{{ m.content }}<|system|>"
    "{% else %}{{ m.content }}{{ eos_token }}{% endif %}{% endfor %}"
)


@pytest.mark.parametrize(
    ("template", "ends"),
    [
        (TEMPLATE, {"</s>"}),
        (ENDED_OTHERWISE, {"</s>", "<|system|>"}),
        (WITHOUT_ROLE, {"</s>"}),
        (None, {"</s>"}),
        (TEMPLATE.replace("{{ eos_token }}", "\n### "), {"</s>"}),
    ],
)
def test_what_the_template_writes_behind_a_turn_ends_an_answer(tmp_path, template, ends):
    save_model(tmp_path)
    save_tokenizer(tmp_path, template)
    prompting = model(tmp_path).prompting
    prompting.load()
    assert {SPECIAL[id_] for id_ in prompting.ends_of()} == ends


def test_a_template_that_opens_no_turn_for_the_model_is_refused(tmp_path):
    save_model(tmp_path)
    save_tokenizer(tmp_path, UNOPENED)
    with pytest.raises(AdapterError, match=r"would write '<\|assistant\|>'"):
        model(tmp_path).prompting.load()
