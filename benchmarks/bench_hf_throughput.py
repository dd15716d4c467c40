"""Throughput of the ``hf`` adapter beside plain ``generate``: same prompts and token counts.

    python benchmarks/bench_hf_throughput.py --size 25M
    python benchmarks/bench_hf_throughput.py --model FOLDER_OR_FILE.gguf --llama-cpp PYTHON
    python benchmarks/bench_hf_throughput.py --model FOLDER_OR_FILE.gguf --prompts 8 --new-tokens 768 \
        --batches 8 --skip-single

The last is of short tails: few rows that go on for long.

``--size``: a random Llama, prompts of heavy-tailed lengths, every answer of exactly ``--new-tokens``
tokens. ``--model``: real weights with their chat template, prompts of ``harmful_helpful``, answers of
at most so many tokens. The contenders take turns ``--repeats`` times and the best time of each counts,
since other work on a machine only ever adds time. Prints one JSON object:

``seconds``        best wall time of each: the adapter, with ``arithmetic: fast``, in each dtype in
                   ``--also``, plain ``generate`` in length-sorted batches of each size in ``--batches``
                   and one prompt at a time (not with ``--skip-single``), llama.cpp one prompt at a time
                   on the GGUF file as it is (``--llama-cpp``: a Python that has llama-cpp-python)
``cpu_seconds``    the same in processor time, but for llama.cpp
``of_bound``       adapter time / fastest sorted time, and ``cpu_of_bound`` (below 1: faster)
``of_fast``        exact answers' time / that of fast ones, and ``cpu_of_fast``; ``opening``: processor
                   time of each until its first answer, loading included
``over_single``    one-at-a-time time / adapter time
``tokens_per_second``  of each whose answers were counted
``drafts``         of each adapter: passes, tokens drafted for them, and how many of these were right
``same_answers``   rows on which each agrees with the fastest sorted batches, of all
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from refract.core.threads import let_threads_sleep  # noqa: E402

let_threads_sleep()  # as the stages do, before torch is loaded

import torch  # noqa: E402
import transformers  # noqa: E402
from tokenizers import Tokenizer, decoders, models, pre_tokenizers  # noqa: E402

from refract.models.hf import HF  # noqa: E402
from refract_exact import ladder  # noqa: E402
from refract_exact.decoding import Decoder  # noqa: E402
from tests.builders import ask, in_order  # noqa: E402

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
def generate(
    model, prompts: list[list[int]], batch: int, new_tokens: int, eos: frozenset[int] = frozenset()
) -> list[list[int]]:
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
            eos_token_id=sorted(eos) or None,
            pad_token_id=min(eos, default=0),
        )
        for row, i in enumerate(part):
            answer = output[row, width:].tolist()
            ends = [place for place, token in enumerate(answer) if token in eos]
            answers[i] = answer[: ends[0] + 1] if ends else answer
    return answers


def counted(decoder: Decoder) -> dict[str, int]:
    """A count, from here on, of a decoder's passes and drafts."""
    counts = {"passes": 0, "drafted": 0, "right": 0}
    step = decoder._step

    def counting(rows, logits, length=None):
        drafts = [(row, len(row.drafted), len(row.generated)) for row in rows if row]
        leaving = step(rows, logits, length)
        counts["passes"] += 1
        for row, drafted, before in drafts:
            counts["drafted"] += drafted
            counts["right"] += len(row.generated) - before - 1
        return leaving

    decoder._step = counting
    return counts


# Runs in another Python: prompts and settings in, seconds, tokens and texts out.
LLAMA_CPP = """
import json, sys, time
from llama_cpp import Llama
given = json.load(sys.stdin)
model = Llama(given["path"], n_ctx=2048, n_threads=given["threads"], verbose=False)
ask = lambda prompt, most: model.create_chat_completion(
    [{"role": "user", "content": prompt}], temperature=0, max_tokens=most, repeat_penalty=1.0)
ask(given["prompts"][0], 4)
start = time.perf_counter()
made = [ask(prompt, given["new_tokens"]) for prompt in given["prompts"]]
print(json.dumps({"seconds": time.perf_counter() - start,
                  "tokens": sum(one["usage"]["completion_tokens"] for one in made),
                  "texts": [one["choices"][0]["message"]["content"] for one in made]}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size", choices=SIZES, default="25M")
    parser.add_argument("--model", help="a folder with a checkpoint, or a GGUF file")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--prompts", type=int)
    parser.add_argument("--longest", type=int, default=1000)
    parser.add_argument("--new-tokens", type=int)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--batches", type=int, nargs="+", default=[16, 32])
    parser.add_argument("--also", metavar="DTYPE", nargs="*", default=[])
    parser.add_argument("--llama-cpp", metavar="PYTHON")
    parser.add_argument("--skip-single", action="store_true")
    parser.add_argument("--few-bits", action="store_true")
    options = parser.parse_args()
    if options.few_bits:
        ladder.WITHOUT_DRAFTS = frozenset()
    transformers.logging.set_verbosity_error()
    count = options.prompts or (64 if options.model else 256)
    new_tokens = options.new_tokens or (64 if options.model else 32)

    with tempfile.TemporaryDirectory() as folder:
        definition = {"max_tokens": new_tokens, "dtype": options.dtype, "device": options.device}
        if options.model:
            path = Path(options.model)
            file = {"gguf_file": path.name} if path.suffix == ".gguf" else {}
            definition |= {"model_id": str(path.parent if file else path)} | file
            with (ROOT / "data/suites/harmful_helpful.jsonl").open(encoding="utf-8") as lines:
                texts = [json.loads(line)["prompt"] for line in lines]
            texts = random.Random(0).sample(texts, count)
        else:
            save(folder, options.size, options.dtype)
            definition |= {"model_id": folder, "chat_template": False}
            texts = heavy_tailed(count, options.longest)
        requests = [ask(text) for text in texts]
        fast = definition | {"arithmetic": "fast"}
        adapters = {
            "adapter": HF("benchmark", HF.Settings(**definition)),
            "fast": HF("fast", HF.Settings(**fast)),
        }
        plain = HF("plain", HF.Settings(**fast))
        for dtype in options.also:
            adapters[dtype] = HF(dtype, HF.Settings(**definition | {"dtype": dtype}))
        opening = {}
        for name, adapter in {"plain": plain, **adapters}.items():
            began = time.process_time()
            list(adapter.answer(requests[:1]))  # loads the weights
            opening[name] = round(time.process_time() - began, 2)
        drafts = {}
        for name, adapter in adapters.items():
            if name != "fast":
                drafts[name] = counted(adapter.loaded().decoder)
        model, tokenizer = plain.loaded().model, plain.prompting.tokenizer
        eos = plain.prompting.ends
        ids = [plain.prompting.prepare(request).tokens for request in requests]

        wall: dict[str, float] = {}
        cpu: dict[str, float] = {}
        texts_of: dict[str, list[str]] = {}
        tokens_of: dict[str, int] = {}

        def timed(name: str, run: Callable[[], Any]) -> Any:
            start, cpu_start = time.perf_counter(), time.process_time()
            made = run()
            took, cpu_took = time.perf_counter() - start, time.process_time() - cpu_start
            wall[name] = min(wall.get(name, took), took)
            cpu[name] = min(cpu.get(name, cpu_took), cpu_took)
            return made

        def time_adapter(name: str) -> None:
            made = timed(name, lambda: in_order(adapters[name], requests))
            tokens_of[name] = sum(answer.completion_tokens for answer in made)
            texts_of[name] = [answer.response.strip() for answer in made]

        def time_generate(name: str, batch: int) -> None:
            made = timed(name, lambda: generate(model, ids, batch, new_tokens, eos))
            tokens_of[name] = sum(map(len, made))
            decoded = (tokenizer.decode(tokens, skip_special_tokens=True) for tokens in made)
            texts_of[name] = [text.strip() for text in decoded]

        def time_llama_cpp(name: str) -> None:
            given = {"path": options.model, "prompts": texts, "new_tokens": new_tokens}
            given["threads"] = torch.get_num_threads()
            command = [options.llama_cpp, "-c", LLAMA_CPP]
            made = json.loads(subprocess.check_output(command, input=json.dumps(given), text=True))
            wall[name] = min(wall.get(name, made["seconds"]), made["seconds"])
            tokens_of[name] = made["tokens"]
            texts_of[name] = [text.strip() for text in made["texts"]]

        for _ in range(options.repeats):
            for name in adapters:
                time_adapter(name)
            for size in options.batches:
                time_generate(f"sorted_{size}", size)
            if options.llama_cpp:
                time_llama_cpp("llama_cpp")
        if not options.skip_single:
            time_generate("single", 1)

    if not options.model:
        assert set(tokens_of.values()) == {count * new_tokens}
    fastest = min((name for name in wall if name.startswith("sorted_")), key=lambda n: wall[n])
    cpu_bound = min(seconds for name, seconds in cpu.items() if name.startswith("sorted_"))
    report = {
        "model": (options.model and Path(options.model).name) or options.size,
        "prompts": count,
        "prompt_tokens": sum(map(len, ids)),
        "new_tokens": new_tokens,
        "runtime": adapters["adapter"].runtime,
        "seconds": {name: round(seconds, 2) for name, seconds in wall.items()},
        "cpu_seconds": {name: round(seconds, 2) for name, seconds in cpu.items()},
        "of_bound": round(wall["adapter"] / wall[fastest], 3),
        "cpu_of_bound": round(cpu["adapter"] / cpu_bound, 3),
        "of_fast": round(wall["adapter"] / wall["fast"], 3),
        "cpu_of_fast": round(cpu["adapter"] / cpu["fast"], 3),
        "opening": opening,
        "drafts": drafts,
        "tokens_per_second": {name: round(tokens_of[name] / wall[name], 1) for name in wall},
        "same_answers": {
            name: f"{sum(a == b for a, b in zip(made, texts_of[fastest], strict=True))}/{count}"
            for name, made in texts_of.items()
        },
    }
    if "single" in wall:
        report["over_single"] = round(wall["single"] / wall["adapter"], 2)
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
