"""Published suites. To add one: add its :class:`Published` here, and name it in ``IMPORTERS``.

Files and licences are as their publishers stated them when the entry was written; the publisher's own
terms decide.
"""

from __future__ import annotations

from dataclasses import replace

from refract.suites.importing.by_columns import HARMFUL, Published

GITHUB, HUB = "https://raw.githubusercontent.com", "https://huggingface.co/datasets"
BORDERLINE = "Every row is borderline: a safe request that looks unsafe."
# Names of languages in CyberSecEval's translated file.
LANGUAGES = {
    "english": "en",
    "french": "fr",
    "german": "de",
    "hindi": "hi",
    "italian": "it",
    "portuguese": "pt",
    "spanish": "es",
    "thai": "th",
}

ADVBENCH = Published(
    title="AdvBench, harmful behaviors (Zou et al. 2023, arXiv 2307.15043)",
    url="https://github.com/llm-attacks/llm-attacks",
    licence="MIT",
    file=f"{GITHUB}/llm-attacks/llm-attacks/main/data/advbench/harmful_behaviors.csv",
    prompt=("goal",),
    kept={"target": "target"},
)

AILUMINATE = Published(
    title="AILuminate 1.0, demo prompts (Ghosh et al. 2025, arXiv 2503.05731)",
    url="https://github.com/mlcommons/ailuminate",
    licence="CC BY 4.0",
    file=f"{GITHUB}/mlcommons/ailuminate/main/airr_official_1.0_demo_en_us_prompt_set_release.csv",
    prompt=("prompt_text",),
    id=("release_prompt_id",),
    kept={"hazard": "hazard", "persona": "persona"},
    rule=f"{HARMFUL} Its publisher counts unsafe answers instead: an answer that is safe without "
    "being a refusal is a good one there.",
    language="locale",
    code=lambda locale: locale.partition("_")[0],
)

COCONOT = Published(
    title="CoCoNot (Brahman et al. 2024, arXiv 2407.12043)",
    url="https://huggingface.co/datasets/allenai/coconot",
    licence="ODC-BY",
    file=f"{HUB}/allenai/coconot/resolve/main/original/test-00000-of-00001.parquet",
    prompt=("prompt",),
    id=("id",),
    kept={"category": "area", "subcategory": "type"},
    rule="Every row is harmful, which here means: not to be complied with as it stands, for reasons "
    "of safety in two rows of five, and otherwise because it is incomplete, unsupported, cannot be "
    "known or takes the model for a person (area).",
)

COCONOT_CONTRAST = replace(
    COCONOT,
    file=f"{HUB}/allenai/coconot/resolve/main/contrast/test-00000-of-00001.parquet",
    category=lambda row: "borderline",
    rule="Every row is borderline: it resembles a request that should not be complied with, and "
    "should be.",
)

CYBERSECEVAL_FRR = Published(
    title="CyberSecEval 2, false refusal rate (Bhatt et al. 2024, arXiv 2404.13161)",
    url="https://github.com/meta-llama/PurpleLlama",
    licence="MIT",
    file=f"{GITHUB}/meta-llama/PurpleLlama/main/CybersecurityBenchmarks/datasets/mitre_frr/"
    "mitre_frr.json",
    prompt=("mutated_prompt",),
    kept={"attack_type": "attack_type"},
    category=lambda row: "harmful" if row.get("is_malicious") else "borderline",
    rule="Rows are borderline, requests about security that look malicious, unless is_malicious.",
    language="speaking_language",
    code=lambda name: LANGUAGES.get(name.strip().lower(), name),
)

DONOTANSWER = Published(
    title="Do-Not-Answer (Wang et al. 2023, arXiv 2308.13387)",
    url="https://github.com/Libr-AI/do-not-answer",
    licence="CC BY-NC-SA 4.0 (data): not for commercial use; share alike",
    file=f"{GITHUB}/Libr-AI/do-not-answer/main/datasets/Instruction/do_not_answer_en.csv",
    prompt=("question",),
    id=("id",),
    kept={"risk_area": "risk_area", "types_of_harm": "harm", "specific_harms": "specific_harm"},
)

DONOTANSWER_ZH = Published(
    title="Do-Not-Answer in Chinese (Wang et al. 2024, arXiv 2402.12193)",
    url="https://github.com/Libr-AI/do-not-answer",
    licence="CC BY-NC-SA 4.0 (data): not for commercial use; share alike",
    file=f"{GITHUB}/Libr-AI/do-not-answer/main/datasets/data_zh.csv",
    id=("id",),
    kept={
        "risk_area": "risk_area",
        "types_of_harm": "harm",
        "specific_harms": "specific_harm",
        "question_type": "question_type",
    },
    rule="Every row is harmful, unless --map gives its question_type another category: a third of "
    "the rows are harmless questions with risky words, to be mapped to borderline.",
    by_value="question_type",
    languages={"zh_question": "zh"},
)

FALSEREJECT = Published(
    title="FalseReject (Zhang et al. 2025, arXiv 2505.08054)",
    url="https://huggingface.co/datasets/AmazonScience/FalseReject",
    licence="CC BY-NC 4.0: not for commercial use",
    file=f"{HUB}/AmazonScience/FalseReject/resolve/main/test.jsonl",
    prompt=("prompt",),
    kept={"category_text": "area", "category": "area_number"},
    category=lambda row: "borderline",
    rule=BORDERLINE,
)

HARMBENCH = Published(
    title="HarmBench, text behaviors (Mazeika et al. 2024, arXiv 2402.04249)",
    url="https://github.com/centerforaisafety/HarmBench",
    licence="MIT",
    file=f"{GITHUB}/centerforaisafety/HarmBench/main/data/behavior_datasets/"
    "harmbench_behaviors_text_all.csv",
    prompt=("Behavior",),
    id=("BehaviorID",),
    kept={
        "Behavior": "behavior",
        "ContextString": "context",
        "FunctionalCategory": "functional",
        "SemanticCategory": "semantic",
        "Tags": "tags",
    },
    context="ContextString",
)

JAILBREAKBENCH = Published(
    title="JailbreakBench, JBB-Behaviors (Chao et al. 2024, arXiv 2404.01318)",
    url="https://github.com/JailbreakBench/jailbreakbench",
    licence="MIT",
    file=f"{HUB}/JailbreakBench/JBB-Behaviors/resolve/main/data/harmful-behaviors.csv",
    prompt=("Goal",),
    id=("Index", ""),
    # A judge's `behavior` is what was asked for; the column of that name holds a title of few words.
    kept={
        "Goal": "behavior",
        "Behavior": "title",
        "Category": "area",
        "Source": "origin",
        "Target": "target",
    },
)

JAILBREAKBENCH_ARTIFACT = Published(
    title="JailbreakBench, attack artifact (Chao et al. 2024, arXiv 2404.01318)",
    url="https://github.com/JailbreakBench/artifacts",
    licence="MIT",
    file=f"{GITHUB}/JailbreakBench/artifacts/main/attack-artifacts/JBC/manual/vicuna-13b-v1.5.json",
    prompt=("prompt",),
    id=("index",),
    kept={"goal": "behavior", "behavior": "title", "category": "area"},
    rule="Every row is harmful: a request, in the words of an attack, that a model should refuse.",
)

MULTIJAIL = Published(
    title="MultiJail (Deng et al. 2023, arXiv 2310.06474)",
    url="https://github.com/DAMO-NLP-SG/multilingual-safety-for-LLMs",
    licence="MIT",
    file=f"{GITHUB}/DAMO-NLP-SG/multilingual-safety-for-LLMs/main/data/MultiJail.csv",
    id=("id",),
    kept={"source": "origin", "tags": "tags"},
    languages={code: code for code in ("en", "zh", "it", "vi", "ar", "ko", "th", "bn", "sw", "jv")},
)

ORBENCH = Published(
    title="OR-Bench (Cui et al. 2024, arXiv 2405.20947)",
    url="https://huggingface.co/datasets/bench-llm/or-bench",
    licence="CC BY 4.0",
    file=f"{HUB}/bench-llm/or-bench/resolve/main/or-bench-hard-1k.csv",
    prompt=("prompt",),
    kept={"category": "area"},
    category=lambda row: "borderline",
    rule="Every row is borderline: a safe request that looks unsafe. (Its toxic set: "
    "--category harmful.)",
)

ORFUZZ = Published(
    title="ORFuzz (Zhang et al. 2025, arXiv 2508.11222)",
    url="https://github.com/HotBento/ORFuzz",
    licence="None stated: ask before sharing the suite",
    file=f"{GITHUB}/HotBento/ORFuzz/main/ORFuzz_dataset/ORFuzz.csv",
    prompt=("input",),
    category=lambda row: "borderline",
    rule=BORDERLINE,
)

SIMPLESAFETYTESTS = Published(
    title="SimpleSafetyTests (Vidgen et al. 2023, arXiv 2311.08370)",
    url="https://github.com/bertiev/SimpleSafetyTests",
    licence="CC BY-NC 4.0 in the publisher's repository, not for commercial use; copies elsewhere say "
    "CC BY",
    file=f"{GITHUB}/bertiev/SimpleSafetyTests/main/SimpleSafetyTests%20-%20test%20cases.csv",
    prompt=("prompts_final", "prompt"),
    id=("id",),
    kept={"harm_area": "area", "category": "form", "counter": "counter"},
)

SORRYBENCH = Published(
    title="SORRY-Bench 2025-03 (Xie et al. 2024, arXiv 2406.14598)",
    url="https://huggingface.co/datasets/sorry-bench/sorry-bench-202503",
    licence="SORRY-Bench's own licence",
    file=f"{HUB}/sorry-bench/sorry-bench-202503/resolve/main/question.jsonl",
    gated=True,
    prompt=("turns",),
    id=("question_id",),
    kept={"category": "area", "prompt_style": "style"},
    language="prompt_style",
    code=lambda style: style.removeprefix("translate-") if style.startswith("translate-") else "en",
)

STRONGREJECT = Published(
    title="StrongREJECT (Souly et al. 2024, arXiv 2402.10260)",
    url="https://github.com/alexandrasouly/strongreject",
    licence="MIT",
    file=f"{GITHUB}/alexandrasouly/strongreject/main/strongreject_dataset/strongreject_dataset.csv",
    prompt=("forbidden_prompt",),
    kept={"category": "area", "source": "origin"},
)

WILDGUARDTEST = Published(
    title="WildGuardTest (Han et al. 2024, arXiv 2406.18495)",
    url="https://huggingface.co/datasets/allenai/wildguardmix",
    licence="ODC-BY",
    file=f"{HUB}/allenai/wildguardmix/resolve/main/test/wildguard_test.parquet",
    gated=True,
    prompt=("prompt",),
    kept={"subcategory": "area", "adversarial": "adversarial", "prompt_harm_label": "label"},
    category=lambda row: {"harmful": "harmful", "unharmful": "helpful"}.get(
        row["prompt_harm_label"]
    ),
    rule="prompt_harm_label: harmful is harmful, unharmful is helpful; rows on which the raters did "
    "not agree have none, and are left out. The answers in the file are not carried over.",
    needs=("prompt_harm_label",),
)

WILDJAILBREAK = Published(
    title="WildJailbreak, evaluation set (Jiang et al. 2024, arXiv 2406.18510)",
    url="https://huggingface.co/datasets/allenai/wildjailbreak",
    licence="ODC-BY",
    file=f"{HUB}/allenai/wildjailbreak/resolve/main/eval/eval.tsv",
    gated=True,
    prompt=("adversarial",),
    kept={"data_type": "type"},
    category=lambda row: {
        "adversarial_harmful": "harmful",
        "adversarial_benign": "borderline",
    }.get(row["data_type"]),
    rule="data_type: adversarial_harmful is harmful, adversarial_benign is borderline: a harmless "
    "request in the form of an attack.",
    needs=("data_type",),
)

XSTEST = Published(
    title="XSTest (Röttger et al. 2023, arXiv 2308.01263)",
    url="https://github.com/paul-rottger/xstest",
    licence="CC BY 4.0",
    file=f"{GITHUB}/paul-rottger/xstest/main/xstest_prompts.csv",
    prompt=("prompt",),
    id=("id",),
    kept={"type": "type", "label": "label", "focus": "focus", "note": "note"},
    category=lambda row: "harmful" if row["type"].startswith("contrast_") else "helpful",
    rule="Rows whose type starts with contrast_ are harmful (the publisher's label: unsafe), all "
    "others helpful (safe). The published completion files can be imported too: they hold the "
    "prompts as they were sent.",
    needs=("type",),
)
