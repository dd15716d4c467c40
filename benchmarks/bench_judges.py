"""The rule judge beside public ones, on the project's labelled pairs.

    python benchmarks/bench_judges.py            # prints the table
    python benchmarks/bench_judges.py --write    # and writes it into benchmarks/README.md
    python benchmarks/bench_judges.py --speed [--answers N]    # answers a second that our judges read
    python benchmarks/bench_judges.py --similarity [--every N]    # BERTScore of SmolLM2's answers

Public judges come from packages on the index, at the versions below, installed into a temporary
folder for this benchmark alone. Only the part that scores a string runs: a package's other
dependencies, gigabytes of clients and models, are not installed, and imports of them get an empty
stand-in. Nothing of theirs is copied into the project.

The speed is of made-up answers of about 1,000 characters, the best of three times: ``per_second`` by
the clock, ``per_processor_second`` in processor time (of one thread where OMP_NUM_THREADS is 1).
Then N answers are judged by one process and by two. ``critical`` is what they would take on cores of
their own: the processor seconds of the calling process, and the mean of those that it started.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from refract.agreement.scores import score_labels  # noqa: E402
from refract.core.jsonl import Row, read_rows  # noqa: E402
from refract.core.types import given_prompt, given_response  # noqa: E402
from refract.core.vocabulary import REFUSED  # noqa: E402
from refract.evaluate.judge_errors import judge_pairs  # noqa: E402
from refract.judges import open_judge, open_judges, processes  # noqa: E402
from refract.judges.cases import Case  # noqa: E402
from refract.report.markdown import markdown_table  # noqa: E402
from refract_published.judges.similarity import encoder_folder  # noqa: E402

BLOCK = re.compile(r"(<!-- public judges[^>]*-->\n).*?(<!-- end of public judges -->)", re.S)


class Public(NamedTuple):
    """A public judge: the package and what else it needs, imports to stand in for, and code that
    defines ``refused(response)``."""

    name: str
    packages: tuple[str, ...]
    stand_ins: tuple[str, ...]
    code: str


JAILBREAKEVAL = """
from jailbreakeval.evaluators.evaluator_base import JailbreakEvaluator
from jailbreakeval.evaluators import string_matching_evaluator
judge = JailbreakEvaluator.from_preset({!r})
def refused(response):
    return not judge({{"question": "", "answer": response}})
"""
JUDGES = (
    Public(
        "garak MitigationBypass",
        ("garak==0.17.1", "xdg-base-dirs==6.0.3"),
        (),
        """
from garak.attempt import Attempt, Message
from garak.detectors.mitigation import MitigationBypass
judge = MitigationBypass()
def refused(response):
    attempt = Attempt(prompt=Message("q", lang="en"))
    attempt.outputs = [Message(response, lang="en")]
    return judge.detect(attempt)[0] == 0
""",
    ),
    Public(
        "llm-guard NoRefusalLight",
        ("llm-guard==0.3.16", "structlog==26.1.0", "faker==40.54.0", "tzdata==2026.6"),
        ("presidio_analyzer", "presidio_anonymizer", "spacy", "detect_secrets"),
        """
import logging, structlog
structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
from llm_guard.output_scanners.no_refusal import NoRefusalLight
judge = NoRefusalLight()
def refused(response):
    return not judge.scan("", response)[1]
""",
    ),
    *(
        Public(
            f"jailbreakeval {preset}",
            ("jailbreakeval==0.0.4",),
            ("googleapiclient",),
            JAILBREAKEVAL.format(preset),
        )
        for preset in (
            "StringMatching-zou2023universal-individual",
            "StringMatching-liu2024autodan-keyword",
            "StringMatching-zhang2024intention-keyword",
        )
    ),
    Public(
        "easyjailbreak PatternJudge",
        ("easyjailbreak==0.1.3",),
        ("fastchat", "datasets", "nltk"),
        """
from easyjailbreak.metrics.Evaluator.Evaluator_PatternJudge import EvaluatorPatternJudge
judge = EvaluatorPatternJudge()
def refused(response):
    return not judge.judge(response)
""",
    ),
)
RUNNER = """
import importlib.abc, importlib.machinery, json, sys, types
class StandIn(types.ModuleType):
    __path__ = []
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {"__init__": lambda self, *args, **kwargs: None})
class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] in STAND_INS:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
    def create_module(self, spec):
        return StandIn(spec.name)
    def exec_module(self, module):
        pass
sys.meta_path.append(Finder())
replies, sys.stdout = sys.stdout, sys.stderr
responses = json.load(sys.stdin)
CODE
json.dump([bool(refused(response)) for response in responses], replies)
"""


def verdicts_of(judge: Public, responses: list[str], folder: Path) -> list[bool]:
    """Whether a public judge calls each response a refusal."""
    target = folder / judge.packages[0]
    if not target.exists():
        subprocess.run(
            [
                *(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"),
                *("--target", str(target), *judge.packages),
            ],
            check=True,
        )
    code = RUNNER.replace("STAND_INS", repr(judge.stand_ins)).replace("CODE", judge.code)
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(responses),
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(target), "HOME": str(folder)},
    )
    if done.returncode != 0:
        sys.exit(f"{judge.name}: {done.stderr[-2000:]}")
    return json.loads(done.stdout)


def row_of(name: str, version: str, truth: list[bool], found: list[bool]) -> list[str]:
    names = ("compliance", "refusal")
    score = score_labels(*([names[refused] for refused in side] for side in (truth, found)))
    rates = [score.get(rate) for rate in ("precision", "recall", "specificity", "accuracy")]
    return [
        name,
        version,
        f"{score['kappa']:.3f} [{score['kappa_low']:.3f}, {score['kappa_high']:.3f}]",
        *("—" if rate is None else f"{rate:.3f}" for rate in rates),
    ]


def tables(pairs: list[Row], folder: Path) -> str:
    """Refusal or not by all judges, and the rule judge's accuracy by slice beside the best other."""
    truth = [pair["label"] in REFUSED for pair in pairs]
    judges = open_judges({"rules": {"kind": "rules"}})
    labels = [row["label"] for row in judge_pairs(pairs, judges)["rules"]]
    found = {"refract rules": [label in REFUSED for label in labels]}
    versions = {"refract rules": "this commit"}
    responses = [pair["response"] for pair in pairs]
    for judge in JUDGES:
        found[judge.name] = verdicts_of(judge, responses, folder)
        versions[judge.name] = judge.packages[0].replace("==", " ")
    found["nothing is a refusal"] = [False] * len(pairs)
    versions["nothing is a refusal"] = "—"
    main = markdown_table(
        ["judge", "version", "κ [95 %]", "precision", "recall", "specificity", "accuracy"],
        [row_of(name, versions[name], truth, verdicts) for name, verdicts in found.items()],
    )
    del found["nothing is a refusal"]
    by_slice = []
    for name in sorted({pair["slice"] for pair in pairs}):
        places = [i for i, pair in enumerate(pairs) if pair["slice"] == name]
        right = {
            judge: sum(verdicts[i] == truth[i] for i in places) for judge, verdicts in found.items()
        }
        own = right.pop("refract rules")
        best = max(right, key=right.get)
        by_slice.append([name, len(places), own, right[best], best])
    score = score_labels([pair["label"] for pair in pairs], labels)
    return "\n\n".join(
        [
            main,
            f"Over all four labels (refusal, partial refusal, compliance, degenerate) the rule judge "
            f"is right on {score['label_accuracy']:.3f}, κ {score['label_kappa']:.3f} "
            f"[{score['label_kappa_low']:.3f}, {score['label_kappa_high']:.3f}].",
            "Answers on which a judge is right whether it is a refusal, by slice:",
            markdown_table(
                ["slice", "answers", "refract rules", "best public judge", "which"], by_slice
            ),
        ]
    )


COUNTS = {"rules": 3000, "refusal": 240}
PROCESSES = (1, 2)
OPENINGS = (
    "Sure, here is what to know.",
    "As an AI, I don't have a garden, but I can share what gardeners do.",
    "I'm sorry, but I can't help with that request.",
    "I must decline, since this goes against my guidelines.",
)
SENTENCES = (
    "The old clock rarely loses time before the winter comes.",
    "A small garden needs warm water and good light, as every gardener knows.",
    "Your bicycle should have a dry place when the weather turns.",
    "\n- **This recipe does not need a new spring**, only some patience.",
)


def made_up(rng: random.Random, count: int) -> list[Case]:
    """Answers to judge, of about 1,000 characters."""
    prompt = given_prompt("0", "How do I look after it?")
    cases = []
    for _ in range(count):
        sentences = rng.choices(SENTENCES, k=rng.randint(8, 22))
        answer = " ".join([rng.choice(OPENINGS), *sentences])
        cases.append(Case(prompt, given_response("0", answer), {}))
    return cases


def speed(answers: int) -> None:
    """Prints how many made-up answers each judge reads in a second."""
    rng = random.Random(20)
    for kind, count in COUNTS.items():
        cases = made_up(rng, 3 * count)
        judge = open_judge(kind, {"kind": kind})
        judge.judge(cases[:16])  # loads the weights
        took = []
        for start in range(0, 3 * count, count):
            began = time.perf_counter(), time.process_time()
            judge.judge(cases[start : start + count])
            took.append((time.perf_counter() - began[0], time.process_time() - began[1]))
        wall, processor = (round(count / min(seconds)) for seconds in zip(*took, strict=True))
        figures = {"per_second": wall, "per_processor_second": processor}
        print(json.dumps({"judge": kind, "answers": count, **figures}))
    for number in PROCESSES:
        several = made_up(rng, answers)
        os.environ[processes.PROCESSES] = str(number)
        began = time.perf_counter(), processor_seconds(), time.process_time()
        processes.judged_by_processes(judge, several)
        wall, used = time.perf_counter() - began[0], processor_seconds() - began[1]
        own = time.process_time() - began[2]
        took = {"seconds": wall, "processor_seconds": used, "critical": own + (used - own) / number}
        shown = {name: round(seconds, 1) for name, seconds in took.items()}
        print(json.dumps({"judge": kind, "answers": answers, "processes": number, **shown}))


def processor_seconds() -> float:
    """Of this process and of those that it waited for."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def similarity(every: int) -> None:
    """Prints the processor seconds of BERTScore over SmolLM2's answers in git, of each
    ``every``-th prompt with its variants, by the default encoder and by bert-score."""
    path = ROOT / "data/answers/smollm2_135m/robustness.jsonl"
    answers = {row["prompt_id"]: row["response"] for row in read_rows(path)}
    pairs = []
    for number, clean in enumerate([id_ for id_ in answers if "/" not in id_]):
        if number % every == 0:
            variants = [id_ for id_ in answers if id_.startswith(f"{clean}/")]
            pairs += [(answers[clean], answers[id_]) for id_ in variants]
    folder = str(encoder_folder())
    for way, definition in (
        ("default", {"kind": "similarity"}),
        ("bert-score", {"kind": "bert_score", "encoder": folder, "layer": 6, "baseline": 0}),
    ):
        judge = open_judge(way, definition)
        judge.score([("Yes.", "No.")])  # loads the weights
        began = processor_seconds()
        judge.score(pairs)
        took = round(processor_seconds() - began, 1)
        print(json.dumps({"way": way, "pairs": len(pairs), "processor_seconds": took}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help="write into benchmarks/README.md")
    parser.add_argument("--speed", action="store_true", help="how fast the project's judges read")
    parser.add_argument(
        "--answers", type=int, default=960, help="as many by one process and by two"
    )
    parser.add_argument("--similarity", action="store_true", help="how fast BERTScore is")
    parser.add_argument("--every", type=int, default=1, help="BERTScore of every N-th prompt alone")
    options = parser.parse_args()
    if options.similarity:
        similarity(options.every)
        return
    if options.speed:
        speed(options.answers)
        return
    pairs = read_rows(ROOT / "data/validation/validation.jsonl")
    with tempfile.TemporaryDirectory() as folder:
        text = tables(pairs, Path(folder))
    print(text)
    if options.write:
        path = ROOT / "benchmarks/README.md"
        page = path.read_text("utf-8")
        path.write_text(BLOCK.sub(lambda m: f"{m[1]}\n{text}\n\n{m[2]}", page), "utf-8")


if __name__ == "__main__":
    main()
