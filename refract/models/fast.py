"""``arithmetic: fast``: what transformers' own ``generate`` gives on this machine.

An answer can depend in its last bits on the rows that share its batch, on the device and
on the number of threads. Imports torch: import this module only where a model is about to
run.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import transformers
from transformers import GenerationConfig, LogitsProcessor, StoppingCriteria

from refract.models.arithmetic import Ends, Row
from refract.models.checkpoint import Loader, changing_ropes
from refract.models.prompting import Prompting
from refract.models.protocol import AdapterError, first_line

log = logging.getLogger(__name__)
# Families whose cache in transformers goes wrong beyond its window, which no short trial shows.
FORGETFUL = ("moshi",)
# Tokens of a batch, prompts and answers together, by device, and the most rows of one.
BATCH_TOKENS = {"cpu": 8192}
OTHER_BATCH_TOKENS = 65_536
MOST_ROWS = 64


@torch.inference_mode()
def refuse_looking_ahead(where: str, run: Any, model: Any, most: float) -> None:
    """Raises AdapterError for a decoder whose logits behind a text depend on the tokens after it, by
    more than ``most`` of their deviation. ``run`` gives what the ``model`` gives for its inputs."""
    embedding = model.get_input_embeddings().weight
    texts = (torch.arange(16, device=embedding.device) * 7919 % len(embedding)).reshape(2, 8)
    texts[1, :5] = texts[0, :5]
    first, second = (run(input_ids=text[None]).logits[0, :5].double() for text in texts)
    if (first - second).abs().max() > most * first.std():
        raise AdapterError(
            f"{where}: {type(model).__name__} looks at the tokens behind a place too, so that it "
            "continues no text; take a checkpoint that does (one of BERT's kind has is_decoder: true)"
        )


def longest_alike(config: Any) -> int | None:
    """Up to how many tokens a row's rotary factors are the same: beyond, those of longrope are
    other ones for all of its tokens, and in one pass those of the longest row are every row's.
    Dynamic ones are others beyond the model's length, which a batch with a long row can pass."""
    config = config.get_text_config()
    lengths = []
    for rope in changing_ropes({"rope_parameters": getattr(config, "rope_parameters", None)}):
        if rope.get("rope_type", rope.get("type")) == "dynamic":
            lengths.append(config.max_position_embeddings)
        else:
            original = rope.get("original_max_position_embeddings")
            lengths.append(original or config.original_max_position_embeddings)
    return min(lengths, default=None)


class Fast:
    """A model as transformers runs it."""

    def __init__(self, loader: Loader, prompting: Prompting) -> None:
        began = time.monotonic()
        self.where, self.settings = loader.where, loader.settings
        self.model = loader.model(prompting.config)
        if self.model.config.model_type in FORGETFUL:
            raise AdapterError(
                f"{self.where}: generate of transformers gives other logits of "
                f"{type(self.model).__name__} than a pass over the same text, once that is longer "
                "than its window; take arithmetic: exact"
            )
        prompting.ends_of(self.model.config, self.model.generation_config)
        # Of the checkpoint's own settings nothing else counts; generate would fall back on them.
        self.model.generation_config = GenerationConfig()
        embedding = self.model.get_input_embeddings().weight
        self.device, prompting.words = embedding.device, len(embedding)
        self.longest = longest_alike(self.model.config)
        size = BATCH_TOKENS.get(self.device.type, OTHER_BATCH_TOKENS)
        self.batch_tokens = self.settings.batch_tokens or size
        self.most_rows = 0  # of a batch; known once the model was tried
        self.runtime: dict[str, Any] = {
            "arithmetic": "fast",
            "device": str(self.device),
            "dtype": str(self.model.dtype).removeprefix("torch."),
            "threads": torch.get_num_threads(),
            "load_seconds": round(time.monotonic() - began, 3),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        }

    def run(self, rows: Sequence[Row], ends: Ends) -> Iterator[Row]:
        """Yields rows batch by batch, those of like length together. Where memory runs out,
        goes on with half as many at a time."""
        waiting = sorted(rows, key=lambda row: (len(row.tokens), row.index))
        while waiting:
            batch = waiting[:1]
            try:
                if not self.most_rows:
                    self._try_model()
                batch = self._batch(waiting, self.most_rows)
                self._generate(batch, ends)
            except torch.OutOfMemoryError as error:
                for row in batch:
                    row.generated, row.ended, row.looped = [], False, False
                if len(batch) > 1:
                    self.most_rows = len(batch) // 2
                    continue
                batch[0].error = "OutOfMemory", first_line(error)
            except AdapterError:
                raise
            except Exception as error:  # whatever a model's code raises
                raise AdapterError(
                    f"{self.where}: {type(self.model).__name__} cannot answer here: "
                    f"{type(error).__name__}: {first_line(error)}"
                ) from error
            waiting = waiting[len(batch) :]
            yield from batch

    def _batch(self, waiting: Sequence[Row], most: int) -> list[Row]:
        """The next rows to run together, the shortest first."""
        batch = [waiting[0]]
        limit = waiting[0].limit
        for row in waiting[1:most]:
            limit = max(limit, row.limit)
            if (len(batch) + 1) * (len(row.tokens) + limit) > self.batch_tokens:
                break
            if self.longest and len(batch[0].tokens) <= self.longest < len(row.tokens) + limit:
                break  # it would give the shorter ones other rotary factors
            batch.append(row)
        return batch

    @torch.inference_mode()
    def _try_model(self) -> None:
        """Refuses a model that looks ahead, or that generate does not give its places, and has one
        that padding changes (it counts places from the batch's begin, say) answer single rows."""
        # What is quantised by a row's size, or shared between experts, is rounded otherwise.
        plain = self.model.dtype == torch.float32 and not self.settings.quantization
        most = 2**-10 if plain else 2**-2
        refuse_looking_ahead(self.where, self.model, self.model, most)
        name, words = type(self.model).__name__, len(self.model.get_input_embeddings().weight)
        texts = [[place * 7919 % words for place in range(1, length)] for length in (4, 13)]
        padded, other, alone, first = (
            Row(0, texts[which], limit) for which, limit in ((0, 2), (1, 2), (0, 2), (0, 1))
        )
        ends = Ends(frozenset(), watched=range(min(64, words)))
        for batch in ([padded, other], [alone], [first]):
            self._generate(batch, ends)
        text = torch.tensor([texts[0]], device=self.device)
        passed = self.model(input_ids=text).logits[0, -1, : len(ends.watched)].tolist()
        if _off(passed, first.watched) > most:
            raise AdapterError(
                f"{self.where}: generate of transformers gives other logits of {name} than a pass "
                "over the same text; take arithmetic: exact"
            )
        self.most_rows = MOST_ROWS
        if _off(padded.watched, alone.watched) > most:
            log.warning("%s: %s is changed by padding: one row at a time, slowly", self.where, name)
            self.most_rows = 1

    @torch.inference_mode()
    def _generate(self, batch: list[Row], ends: Ends) -> None:
        width = max(len(row.tokens) for row in batch)
        ids = torch.zeros((len(batch), width), dtype=torch.long)
        mask = torch.zeros_like(ids)
        for place, row in enumerate(batch):
            ids[place, width - len(row.tokens) :] = torch.tensor(row.tokens)
            mask[place, width - len(row.tokens) :] = 1
        config = GenerationConfig(
            max_new_tokens=max(row.limit for row in batch),
            do_sample=False,
            pad_token_id=0,
            return_dict_in_generate=True,
            output_logits=bool(ends.watched),
        )
        output = self.model.generate(
            ids.to(self.device),
            attention_mask=mask.to(self.device),
            generation_config=config,
            logits_processor=[_Choosing(batch, self.settings)],
            stopping_criteria=[_Ending(batch, ends)],
        )
        if ends.watched:
            watched = list(ends.watched)
            for place, row in enumerate(batch):
                row.watched = output.logits[-1][place, watched].float().tolist()


def _off(logits: Sequence[float], right: Sequence[float]) -> float:
    """The largest difference of logits, in deviations of the right ones; 0 of none that are numbers."""
    first, second = torch.tensor([logits, right]).double()
    return float(((first - second).abs().max() / second.std()).nan_to_num(0.0))


class _Choosing(LogitsProcessor):
    """Has a greedy choice draw each row's tokens with its own seed, where there is a
    temperature (the largest of logits with Gumbel noise is a draw of their softmax), and
    notes rows whose logits are no numbers."""

    def __init__(self, batch: Sequence[Row], settings: Any) -> None:
        self.batch, self.temperature = batch, float(settings.temperature)
        self.generators = []
        for row in batch if self.temperature else ():
            self.generators.append(torch.Generator().manual_seed(row.seed % 2**63))
        self.limits: list[LogitsProcessor] = []
        if settings.top_k:
            self.limits.append(transformers.TopKLogitsWarper(settings.top_k))
        if settings.top_p < 1:
            self.limits.append(transformers.TopPLogitsWarper(float(settings.top_p)))

    def __call__(self, ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        for row, good in zip(self.batch, torch.isfinite(scores.amax(-1)).tolist(), strict=True):
            if not good and not row.done:
                place = len(row.generated) + 1
                text = f"the model's output is not a number at answer token {place}"
                row.error = "NonFiniteLogits", f"{text}; try dtype: float32"
        if not self.temperature:
            return scores
        scores = scores.double() / self.temperature
        for limit in self.limits:
            scores = limit(ids, scores)
        noise = [torch.rand(scores.shape[-1], generator=g).double() for g in self.generators]
        uniform = torch.stack(noise).to(scores.device).clamp(min=1e-300)
        return scores - (-uniform.log()).log()


class _Ending(StoppingCriteria):
    """Gives each row its next token, and says which rows have ended."""

    def __init__(self, batch: Sequence[Row], ends: Ends) -> None:
        self.batch, self.ends = batch, ends

    def __call__(self, ids: torch.Tensor, scores: Any, **more: Any) -> torch.Tensor:
        for row, token in zip(self.batch, ids[:, -1].tolist(), strict=True):
            if not row.done:
                row.generated.append(token)
                self.ends.note(row)
        return torch.tensor([row.done for row in self.batch], device=ids.device)
