"""What a GPU does with the ``hf`` adapter, in one command and a few minutes:

    python benchmarks/bench_gpu.py --out gpu.md

The model is a random Llama of ``--size``. In float32 and in bfloat16: answers alone, in subsets and in
other orders against those of the whole set; time against plain ``generate`` in length-sorted batches;
and answers within a share of the memory so small that the adapter has to halve its batches. Writes a
table for ``benchmarks/README.md``. With ``--device cpu`` all but the last runs without a GPU, as a
rehearsal:

    python benchmarks/bench_gpu.py --device cpu --size 260K --prompts 24 --new-tokens 8
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

from benchmarks.bench_hf_throughput import SIZES, generate, heavy_tailed, save
from refract.models.hf import HF
from refract.models.protocol import Answer, Request
from refract.report.markdown import markdown_table
from tests.builders import ask, in_order

# Of the device's memory, beside the weights: too little for a whole group's cache.
MEMORY_SHARE = 0.02


def changed(adapter: HF, requests: list[Request], whole: list[Answer]) -> str:
    """How many answers differ from those of the whole set: alone, in subsets, in other orders."""
    generator = random.Random(0)
    groups = [[index] for index in generator.sample(range(len(requests)), 4)]
    groups += [generator.sample(range(len(requests)), len(requests) // n) for n in (1, 2, 5)]
    differing = 0
    for group in groups:
        answers = in_order(adapter, [requests[index] for index in group])
        differing += sum(a != whole[index] for index, a in zip(group, answers, strict=True))
    return f"{differing} of {sum(map(len, groups))}"


def synchronised_seconds(run) -> tuple[float, object]:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    start = time.perf_counter()
    result = run()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start, result


def measured(folder: str, dtype: str, options: argparse.Namespace) -> dict[str, object]:
    """One row of the table, of one dtype."""
    definition = {"model_id": folder, "chat_template": False, "max_tokens": options.new_tokens}
    definition |= {"dtype": dtype, "device": options.device}
    adapter = HF("benchmark", HF.Settings(**definition))
    texts = heavy_tailed(options.prompts, options.longest)
    requests = [ask(text) for text in texts]
    in_order(adapter, requests[:1])  # loads the weights
    model, tokenizer = adapter.loaded().decoder.model, adapter.prompting.tokenizer
    ids = [tokenizer(text)["input_ids"] for text in texts]
    ours, plain, whole = [], [], []
    for _ in range(2):
        seconds, whole = synchronised_seconds(lambda: in_order(adapter, requests))
        ours.append(seconds)
        for size in options.batches:
            seconds, _ = synchronised_seconds(
                lambda n=size: generate(model, ids, n, options.new_tokens)
            )
            plain.append(seconds)
    return {
        "dtype": dtype,
        "answers that depend on the batch": changed(adapter, requests, whole),
        "adapter, tokens/s": round(options.prompts * options.new_tokens / min(ours)),
        "of sorted batches": round(min(plain) / min(ours), 2),
        "within little memory": little_memory(definition, requests),
    }


def little_memory(definition: dict[str, object], requests: list[Request]) -> str:
    """How many prompts are answered where memory runs out, and in which batch shape at the end."""
    if definition["device"] == "cpu":
        return "not on a CPU"
    adapter = HF("benchmark", HF.Settings(**definition))
    in_order(adapter, requests[:1])
    device = adapter.loaded().decoder.device
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(device).total_memory
    share = torch.cuda.memory_allocated(device) / total + MEMORY_SHARE
    torch.cuda.set_per_process_memory_fraction(min(1.0, share), device)
    try:
        made = in_order(adapter, requests)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0, device)
    answered = sum(answer.error is None for answer in made)
    return f"{answered} of {len(made)} answered, {adapter.runtime['batch_shape']}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size", choices=SIZES, default="qwen0.5B")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--prompts", type=int, default=256)
    parser.add_argument("--longest", type=int, default=1000)
    parser.add_argument("--new-tokens", type=int, default=64)
    parser.add_argument("--batches", type=int, nargs="+", default=[32, 128])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.device != "cpu" and not torch.cuda.is_available():
        sys.exit("no GPU that torch can use; to rehearse without one: --device cpu --size 260K")
    device = "a CPU" if options.device == "cpu" else torch.cuda.get_device_name(0)
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        save(folder, options.size, "float32")
        rows = [measured(folder, dtype, options) for dtype in ("float32", "bfloat16")]
    text = (
        f"{options.size}, {options.prompts} prompts, {options.new_tokens} tokens each, on {device}, "
        f"torch {torch.__version__}; {time.perf_counter() - start:.0f} s in all.\n\n"
        f"{markdown_table(list(rows[0]), [list(row.values()) for row in rows])}\n"
    )
    print(text)
    if options.out:
        options.out.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
