"""Where a turn begins and ends by the checkpoint's own template."""

from __future__ import annotations

import pytest

from refract.models.protocol import AdapterError
from tests.small_models import SPECIAL, TEMPLATE, model, save_model, save_tokenizer

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
