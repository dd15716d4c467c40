"""``arithmetic: exact`` of the adapter ``hf``: a model opened so that its answers are exact."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import transformers

from refract.models.arithmetic import Ends, Row
from refract.models.checkpoint import Loader, cached_snapshot, stored_tensors
from refract.models.fast import refuse_looking_ahead
from refract.models.prompting import Prompting
from refract.models.protocol import AdapterError, Answer, Request, first_line
from refract_exact import decoding, float64, ladder
from refract_exact.cpu import prepare, running_on
from refract_exact.deciding import TIE, Choice, Decider, DecodedRow
from refract_exact.float64 import NotExact, Reference
from refract_exact.routes import find_route
from refract_exact.verifying import Checked, Verifier


def stored_dtype(loader: Loader) -> str | None:
    """The type of number that holds each weight of the checkpoint as it is; None
    where that is not known."""
    settings = loader.settings
    if settings.gguf_file:
        return "float32"  # what they are dequantised to
    folder = loader.folder or cached_snapshot(settings.model_id, loader.commit)
    kinds = {kind for kind, _ in stored_tensors(folder).values()} if folder else set()
    if kinds & {"F32", "F64"} or kinds >= {"BF16", "F16"}:
        return "float32"
    if "BF16" in kinds:
        return "bfloat16"
    return "float16" if "F16" in kinds else None


class Exact:
    """See the module. ``decoder`` decodes; ``threads``: on how many (None: as many as PyTorch
    takes)."""

    def __init__(self, loader: Loader, prompting: Prompting) -> None:
        began = time.monotonic()
        self.loader, self.prompting, self.settings = loader, prompting, loader.settings
        settings = self.settings
        model = self._model_to_settle()
        shape = decoding.shape_for(model, settings.batch_tokens)
        linear, self.threads = prepare(model, shape.rows)
        stored = self._as_stored(model)
        if stored is not model:
            linear, _ = prepare(stored, shape.rows)
        is_narrow = model.dtype != torch.float32 or settings.quantization == "8bit"
        dtype = str(model.dtype).removeprefix("torch.")
        prompting.ends_of(model.config, model.generation_config)
        prompting.words = len(model.get_input_embeddings().weight)
        choice = Choice(float(settings.temperature), float(settings.top_p), settings.top_k)
        rungs = None
        with running_on(self.threads):
            try:
                reference = Reference(stored, keep=True)
                # the margins of a mixture say nothing, whatever gives them
                if is_narrow and not reference.routes:
                    rungs = ladder.Ladder(stored, narrow=model)
                    model = rungs.model
                route = find_route(model, reference)
                if route.attention is None:
                    refuse_looking_ahead(loader.where, reference, reference.model, TIE)
                decider = Decider(model, choice, reference, route)
            except AdapterError:
                raise
            except Exception as error:  # whatever a model's code raises
                text = f"{first_line(error)}; set arithmetic: fast"
                if not isinstance(error, NotExact):
                    text = f"a pass over a short text ends in {type(error).__name__}: {text}"
                raise AdapterError(
                    f"{loader.where}: {type(model).__name__} has no exact answers here: {text}"
                ) from error
            reference.let_go()
        self.decoder = decoding.Decoder(
            model,
            choice,
            shape=shape,
            context=prompting.context,
            route=route,
            decider=decider,
            ladder=rungs,
        )
        self.runtime: dict[str, Any] = {
            "arithmetic": "exact",
            "bound": decider.bound,
            "error": decider.error,
            "device": str(self.decoder.device),
            "dtype": dtype,
            "batch_shape": repr(shape),
            "linear": linear,
            "threads": self.threads or torch.get_num_threads(),
            "load_seconds": round(time.monotonic() - began, 3),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        }

    def run(self, rows: Sequence[Row], ends: Ends) -> Iterator[Row]:
        """Yields every row as it is done; again where a larger bound showed that another
        token is right."""
        asked = [DecodedRow(row.index, row.tokens, row.limit, row.seed) for row in rows]
        with running_on(self.threads):
            for row in self.decoder.run(asked, ends):
                self.runtime["batch_shape"] = repr(self.decoder.shape)
                yield row

    def verify(
        self, requests: Sequence[Request], answers: Sequence[Answer]
    ) -> Iterator[tuple[int, Checked]]:
        """Checks recorded answers by one pass over each."""
        with running_on(self.threads):
            yield from Verifier(self.decoder, self.prompting).verify(requests, answers)

    def _model_to_settle(self) -> Any:
        """The model of exact answers. Where few bits would draft none, it is loaded as
        it is stored, and a small one becomes float32."""
        loader, settings, config = self.loader, self.settings, self.prompting.config
        if loader.device.partition(":")[0] not in ladder.WITHOUT_DRAFTS or settings.quantization:
            return loader.model(config)
        is_narrow = settings.dtype in ("bfloat16", "float16")
        model = loader.model(config, numbers=stored_dtype(loader) if is_narrow else None)
        size = sum(p.numel() for p in model.parameters())
        if getattr(model, "is_quantized", False) or size > float64.KEPT_WEIGHTS:
            return model
        return model.float()

    def _as_stored(self, model: Any) -> Any:
        """The model with its weights as the checkpoint has them: ``model`` itself, or where that
        has other ones, another. Weights are quantised from the type that is stored, and another
        time: what multiplies by them may reorder and round them in place."""
        stored = stored_dtype(self.loader)
        used = str(model.dtype).removeprefix("torch.")
        quantised = getattr(model.config, "quantization_config", None) is not None
        if self.settings.gguf_file:  # whose weights are no longer quantised once they are read
            quantised = False
        if not quantised and (stored in (None, used) or used == "float32"):
            return model
        return self.loader.model(self.prompting.config, numbers=stored)
