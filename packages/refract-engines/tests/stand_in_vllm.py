"""A stand-in of the package vllm: greedy float32 decoding behind the arguments of its release 0.33.0.

``vllm_0.33.0.json`` has the names, as they stand in the release's own source.
"""

import json
import os
from types import SimpleNamespace

API = json.loads(os.environ["STAND_IN_VLLM_API"])
CALLS = []  # of the engine: its arguments, and the mode that it ran in


def _known(kind, *groups):
    known = {name for group in groups for name in API[group]}
    return [name for name in kind if name not in known]


class SamplingParams:
    def __init__(self, **given):
        assert not _known(given, "SamplingParams"), given
        self.__dict__.update(given)


class LLM:
    def __init__(self, model, **given):
        assert not _known(given, "LLM", "EngineArgs"), given
        from transformers import AutoModelForCausalLM

        if given.get("dtype") == "float16":
            raise RuntimeError("no memory")
        self.model = AutoModelForCausalLM.from_pretrained(model)
        self.model_config = SimpleNamespace(dtype=self.model.dtype)
        CALLS.append({"model": model, **given, "mode": os.environ["VLLM_BATCH_INVARIANT"]})

    def generate(self, prompts, sampling_params=None, **given):
        assert not _known(given, "generate"), given
        return [
            self._one(p["prompt_token_ids"], s)
            for p, s in zip(prompts, sampling_params, strict=True)
        ]

    def _one(self, prompt, params):
        import torch

        tokens, reason = [], "length"
        while len(tokens) < params.max_tokens and reason == "length":
            with torch.inference_mode():
                logits = self.model(torch.tensor([[*prompt, *tokens]])).logits[0, -1]
            tokens.append(int(logits.argmax()))
            reason = "stop" if tokens[-1] in params.stop_token_ids else reason
        made = dict.fromkeys(API["CompletionOutput"])
        made |= {"token_ids": tuple(tokens), "finish_reason": os.environ.get("ENDED", reason)}
        return SimpleNamespace(outputs=[SimpleNamespace(**made)])
