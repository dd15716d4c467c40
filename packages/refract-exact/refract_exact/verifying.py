"""Recorded answers checked without generating them: one pass over prompt and answer together.

Fast arithmetic gives each recorded token's margin at once; float64 decides those that are not
certain under the measured bound, and the first that is wrong (:mod:`refract_exact.deciding`).

Related: Token-DiFR (arXiv 2511.20621) and TOPLOC (arXiv 2501.16007) ask whether an
answer is likely to be a model's; this asks whether each token is the exact one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os.path import commonprefix
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence

from refract.models.prompting import Prompting, ReadyPrompt
from refract.models.protocol import Answer, Certificate, Request, unpacked_tokens
from refract.models.store import ANSWER_FIELDS
from refract_exact.deciding import DecodedRow, finite, passes
from refract_exact.decoding import Decoder
from refract_exact.float64 import kept_positions, whole_passes

# What is compared of an answer without tokens.
BESIDE_TEXT = ("attempt", "tool_calls", "prompt_tokens", "completion_tokens")


@dataclass(slots=True)
class Checked:
    """What a check found of an answer."""

    problem: str = ""
    """"" where the answer holds."""
    unchecked: str = ""
    """Why it was not looked at."""
    place: int | None = None
    """Of the first token that is not the exact one, from 0."""
    right: str | None = None
    float64: int = 0
    """Tokens that float64 decided, of which so many were ties."""
    ties: int = 0
    from_text: bool = False
    """Whether its tokens are those of its text, cut anew."""
    certificate: Certificate | None = None
    """What speaks for an answer that holds."""


class Verifier:
    """Reads recorded answers with a decoder's weights."""

    def __init__(self, decoder: Decoder, prompting: Prompting) -> None:
        self.decoder, self.prompting = decoder, prompting
        self.prompts: dict[int, ReadyPrompt] = {}

    def verify(
        self, requests: Sequence[Request], answers: Sequence[Answer]
    ) -> Iterator[tuple[int, Checked]]:
        """Checks recorded answers. One without tokens is tokenised; where exact decoding
        cuts its text otherwise, as that does."""
        recorded: dict[int, list[int]] = {}
        for index, (request, answer) in enumerate(zip(requests, answers, strict=True)):
            found = self._tokens_to_read(index, request, answer)
            if isinstance(found, Checked):
                yield index, found
            else:
                recorded[index] = found
        self.decoder.ends = self.prompting.endings(self.prompts)
        while recorded:
            rows = []
            for index, tokens in recorded.items():
                rows.append(self._read_row(index, requests[index].seed, tokens))
            if not any(row.audited for row in rows):  # the bound is to be one of these passes
                min(rows, key=lambda row: row.known).audited = True
            settle_recorded(self.decoder, rows)
            before, recorded = recorded, {}
            for row in rows:
                index, answer = row.index, answers[row.index]
                checked = self._checked(row, before[index], answer)
                again = None
                if answer.tokens is None and checked.right is not None:
                    again = self._cut_anew(list(row.generated), answer)
                if again:
                    recorded[index] = again
                else:
                    yield index, checked

    def _tokens_to_read(self, index: int, request: Request, answer: Answer) -> list[int] | Checked:
        """The tokens of an answer, or what is found without reading them."""
        prepared = self.prompting.prepare(request)
        if isinstance(prepared, Answer):
            same = prepared.error == answer.error
            return Checked("" if same else f"it can have no answer: {prepared.error}")
        if answer.finish_reason not in ("stop", "length", "loop"):
            return Checked(unchecked=str(answer.finish_reason))
        if answer.tokens is None and (answer.thinking or self.prompting.settings.reasoning):
            return Checked(unchecked="thinking without tokens")
        self.prompts[index] = prepared
        try:
            return self._recorded(answer)
        except ValueError as error:
            return Checked(f"its tokens cannot be read: {error}")

    def _read_row(self, index: int, seed: int, tokens: list[int]) -> DecodedRow:
        """A row whose answer is recorded tokens, as far as an answer can go."""
        prompt = self.prompts[index]
        row = DecodedRow(index, prompt.tokens, limit=self.prompting.limit(prompt), seed=seed)
        for token in tokens:
            row.generated.append(token)
            self.decoder.ends.note(row)
            if row.done:
                break
        row.audited = self.decoder.decider.audits(row)
        return row

    def _recorded(self, answer: Answer) -> list[int]:
        """The tokens of a recorded answer, which may be anybody's. Raises ValueError."""
        if not isinstance(answer.response, str) or not isinstance(answer.tokens, str | None):
            raise ValueError("response and tokens are to be texts")
        if answer.tokens is None:
            prefill = self.prompting.settings.prefill or ""
            return self._of_text(answer.response.removeprefix(prefill), answer)
        tokens = unpacked_tokens(answer.tokens)
        known = self.decoder.decider.reference.vocabulary
        if not tokens or max(tokens) >= known:
            raise ValueError(f"ids from 0 to {known - 1} are allowed (got {str(tokens)[:60]})")
        return tokens

    def _of_text(self, text: str, answer: Answer) -> list[int]:
        """The tokens of a text, and of its end where a token ended it."""
        tokenizer = self.prompting.tokenizer
        ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
        end = answer.finish_reason == "stop" and not self.prompting.stop
        return [*ids, tokenizer.eos_token_id] if end or not ids else ids

    def _cut_anew(self, tokens: list[int], answer: Answer) -> list[int] | None:
        """These tokens and those of the answer's text behind them; None where they are
        another text."""
        text = answer.response.removeprefix(self.prompting.settings.prefill or "")
        written, _ = self.prompting.split(tokens, in_thinking=False)
        if tokens[-1] in self.prompting.ends:  # any of a model's ends is one
            return tokens if text == written and answer.finish_reason == "stop" else None
        if not text.startswith(written):
            return None
        behind = text[len(written) :]
        if behind or answer.finish_reason == "stop":
            return tokens + self._of_text(behind, answer)
        return tokens

    def _checked(self, row: DecodedRow, recorded: list[int], answer: Answer) -> Checked:
        """What is found of a recorded answer whose tokens were decided."""
        decode = self.prompting.tokenizer.decode
        row.certify(self.decoder.decider.bound)
        checked = Checked(
            float64=row.decided,
            ties=row.ties,
            from_text=answer.tokens is None,
            certificate=row.certificate,
        )
        count = len(row.generated)
        if row.error:
            checked.problem = row.error[1]
        elif list(row.generated) != recorded[:count]:
            checked.place = count - 1
            token, right = recorded[checked.place], row.generated[checked.place]
            checked.right = decode([right])
            checked.problem = (
                f"token {count} is {decode([token])!r} (id {token}), and {checked.right!r} "
                f"(id {right}) is right by {-row.lost:.3g}"
            )
            return checked
        if count < len(recorded):
            checked.place = count
            token_behind = decode([recorded[count]])
            checked.problem = f"token {count + 1} ({token_behind!r}) is behind the end"
        elif not row.done and not (checked.from_text and self.prompting.stop):
            checked.place = count
            checked.problem = f"it stops behind token {count}, at no end and before its limit"
        else:
            exact = self.prompting.answer_of(row, self.prompts[row.index])
            for name in BESIDE_TEXT if checked.from_text else ANSWER_FIELDS:
                before, after = getattr(answer, name), getattr(exact, name)
                # A server's counts are left out before.
                unknown = checked.from_text and before is None
                if before != after and not unknown:
                    difference = _difference(before, after)
                    checked.problem = f"its {name} is not that of its tokens: {difference}"
                    break
        return checked


def _difference(recorded: Any, right: Any) -> str:
    """Two values of an answer's field, of texts from where they differ on."""
    if not (isinstance(recorded, str) and isinstance(right, str)):
        return f"{recorded!r:.80}, and {right!r:.80} is right"
    at = len(commonprefix([recorded, right]))  # noqa: RUF071 - of characters is meant
    end = at + 40
    return f"{recorded[at:end]!r} at character {at + 1}, and {right[at:end]!r} is right"


def _force(decoder: Decoder, batch: Sequence[tuple[DecodedRow, list[int]]]) -> None:
    """The margins of recorded tokens, by one pass of fast arithmetic over some rows, or
    by one for each token of a row that is decoded alone."""
    sequences, rows, positions = [], [], []
    proposed: list[int] = []
    uniforms: list[float] = []
    for i, (row, places) in enumerate(batch):
        sequences.append(torch.tensor(row.sequence[:-1]))
        proposed += row.generated
        for place in places:
            rows.append(i)
            positions.append(len(row.tokens) - 1 + place)
            if row.uniforms:
                uniforms.append(row.uniforms[place])
    model, route = decoder.model, decoder.route
    row, places = batch[0]
    if route.alone(row.known - 1):  # the only row then
        logits = whole_passes(model, row.tokens, row.generated, places).float()
    else:
        ids = pad_sequence(sequences, batch_first=True).to(decoder.device)
        with torch.inference_mode(), kept_positions(model, rows, positions):
            logits = model(input_ids=ids, use_cache=False).logits[0].float()
    compared = decoder.choice.compare(torch.tensor(proposed), logits, uniforms)
    margins = compared[2].where(finite(logits), torch.nan).tolist()
    for row, places in batch:
        row.margins, margins = margins[: len(places)], margins[len(places) :]


def settle_recorded(decoder: Decoder, rows: Sequence[DecodedRow]) -> None:
    """Checks the ``generated`` tokens of rows. A row with a wrong token ends with the
    right one instead, and has in ``lost`` by how much the recorded one lost."""
    decider = decoder.decider
    if decoder.choice.temperature > 0:
        for row in rows:
            row.draw()
    by_length = sorted(rows, key=lambda row: (row.known, row.index))
    together = []
    for row in by_length:
        places = list(range(len(row.generated)))
        if decoder.route.alone(row.known - 1):
            _force(decoder, [(row, places)])
        else:
            together.append((row, places))
    for batch in passes(together, decider.reference.vocabulary):
        _force(decoder, batch)
    while True:
        unsettled = [row for row in rows if not row.error and decider.open_places(row)]
        if not unsettled:
            return
        decider.settle(unsettled)
        for row in unsettled:
            decider.let_go(row)
