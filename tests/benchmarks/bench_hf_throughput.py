"""Throughput of the ``hf`` adapter beside plain ``generate``: same prompts and token counts.

    OMP_NUM_THREADS=2 .venv/bin/python tests/benchmarks/bench_hf_throughput.py --size 25M

The model is a random Llama, the prompts have heavy-tailed lengths, every answer has exactly
``--new-tokens`` tokens. The contenders take turns ``--repeats`` times and the best time of each
counts, since other work on a machine only ever adds time; ``--clock cpu`` counts processor time
instead, which with one thread is fair on a busy machine. Prints one JSON object:

``seconds``       best time of each: the adapter, ``generate`` in length-sorted batches of each size
                  in ``--batches``, ``generate`` one prompt at a time (not with ``--skip-single``)
``of_bound``      fastest sorted time / adapter time (target: at least 0.95)
``over_single``   one-at-a-time time / adapter time (target: at least 5 up to 10M parameters on CPU)
``same_answers``  rows on which the adapter and one-at-a-time ``generate`` agree, of all
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from refract.models.hf import HF
from refract.models.protocol import Request

# hidden size, intermediate size, layers, heads, key/value heads, vocabulary
SIZES = {
    "260K": (64, 172, 5, 8, 4, 512),
    "3M": (256, 688, 4, 8, 8, 1024),
    "10M": (384, 1024, 6, 6, 6, 2048),
    "25M": (512, 1536, 6, 8, 8, 8192),
    "qwen0.5B": (896, 4864, 24, 14, 2, 151_936),
}


def save(folder: str, size: str, dtype: str) -> None:
    hidden, intermediate, layers, heads, kv_heads, vocabulary = SIZES[size]
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=None,  # nothing ends an answer but its length
        pad_token_id=0,
    )
    model = transformers.LlamaForCausalLM(config).to(getattr(torch, dtype))
    model.save_pretrained(folder)
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: i for i, letter in enumerate(letters)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)


def heavy_tailed(count: int, longest: int) -> list[str]:
    generator = random.Random(0)
    lengths = [min(longest, int(20 * generator.paretovariate(0.8))) for _ in range(count)]
    return ["".join(generator.choices("abcdefghijkl mnop", k=n)) for n in lengths]


@torch.inference_mode()
def generate(model, prompts: list[list[int]], batch: int, new_tokens: int) -> list[list[int]]:
    """Plain ``generate`` over prompts sorted by length, ``batch`` at a time; answers in order."""
    order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]), reverse=True)
    answers: list[list[int]] = [[] for _ in prompts]
    for start in range(0, len(order), batch):
        part = order[start : start + batch]
        width = max(len(prompts[i]) for i in part)
        ids = torch.zeros((len(part), width), dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, i in enumerate(part):
            ids[row, width - len(prompts[i]) :] = torch.tensor(prompts[i])
            mask[row, width - len(prompts[i]) :] = 1
        output = model.generate(
            ids.to(model.device),
            attention_mask=mask.to(model.device),
            max_new_tokens=new_tokens,
            do_sample=False,
        )
        for row, i in enumerate(part):
            answers[i] = output[row, width:].tolist()
    return answers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size", choices=SIZES, default="25M")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--prompts", type=int, default=256)
    parser.add_argument("--longest", type=int, default=1000)
    parser.add_argument("--new-tokens", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--batches", type=int, nargs="+", default=[16, 32])
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--skip-single", action="store_true")
    parser.add_argument("--batch-tokens", type=int)
    options = parser.parse_args()
    clock = time.process_time if options.clock == "cpu" else time.perf_counter
    transformers.logging.set_verbosity_error()

    with tempfile.TemporaryDirectory() as folder:
        save(folder, options.size, options.dtype)
        definition = {
            "model_id": folder,
            "chat_template": False,
            "max_tokens": options.new_tokens,
            "dtype": options.dtype,
            "device": options.device,
            "batch_tokens": options.batch_tokens,
        }
        adapter = HF("benchmark", HF.Settings(**definition))
        texts = heavy_tailed(options.prompts, options.longest)
        requests = [Request((({"role": "user", "content": text},),)) for text in texts]
        list(adapter.answer(requests[:1]))  # loads the weights
        model, tokenizer = adapter._decoder.model, adapter._tokenizer
        ids = [tokenizer(text)["input_ids"] for text in texts]

        best: dict[str, float] = {}
        results: dict[str, list] = {}

        def timed(name: str, run) -> None:
            start = clock()
            results[name] = run()
            best[name] = min(best.get(name, 1e9), clock() - start)

        for _ in range(options.repeats):
            timed("adapter", lambda: dict(adapter.answer(requests)))
            for size in options.batches:
                timed(f"sorted_{size}", lambda n=size: generate(model, ids, n, options.new_tokens))
        if not options.skip_single:
            timed("single", lambda: generate(model, ids, 1, options.new_tokens))

    made = [results["adapter"][i] for i in range(len(requests))]
    assert all(answer.completion_tokens == options.new_tokens for answer in made)
    bound = min(seconds for name, seconds in best.items() if name.startswith("sorted_"))
    report = {
        "size": options.size,
        "prompts": len(texts),
        "prompt_tokens": sum(map(len, ids)),
        "new_tokens": options.new_tokens,
        "clock": options.clock,
        "runtime": adapter.runtime,
        "seconds": {name: round(seconds, 2) for name, seconds in best.items()},
        "of_bound": round(bound / best["adapter"], 3),
    }
    if "single" in best:
        decoded = [tokenizer.decode(answer) for answer in results["single"]]
        report["over_single"] = round(best["single"] / best["adapter"], 2)
        same = sum(answer.response == text for answer, text in zip(made, decoded, strict=True))
        report["same_answers"] = f"{same}/{len(texts)}"
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
