"""Texts that a model could write to break what shows them."""

from __future__ import annotations

from collections.abc import Mapping

from refract.report.page_data import Answered

TEXTS = {
    "script": "<script>window.pwned = 1</script>",
    "end of data": '</script><script>window.pwned = 1</script><!-- "',
    "comment": "<!--<script>window.pwned = 1//-->",
    "handler": "<img src=x onerror='window.pwned = 1'><svg onload=window.pwned=1>",
    "attribute": '" onmouseover="window.pwned = 1" x=\'',
    "link": "[x](javascript:window.pwned=1) <a href='javascript:window.pwned=1'>x</a>",
    "template": "{{ 7 * 7 }}{% raw %}${window.pwned = 1}`",
    "entity": "&lt;b&gt; &amp;lt; &#60;",
    "bidi": "safe \u202egnp.exe\u202c \u2066hidden\u2069 \u200bend",
    "formula": '=HYPERLINK("http://localhost/","x")',
    "formulas": "+1+cmd|' /C calc'!A0\n@SUM(1)\n-2+3",
    "escapes": "\x1b[2J\x1b]0;owned\x07\x1b[31mred\x9b31m\b\b\r",
    "separators": "a\u2028b\u2029c\x85d\x0be\x0cf\0g",
    "surrogates": "\ud800 alone, \udfff alone, \U0001f600 whole, reversed \udc00\ud800",
    "one line": "x" * 1_000_000,
    "table": "| a | b |\n|---|---|\n```\n# heading\n\\",
    "rich": "[bold red]loud[/bold red] [link=http://localhost]x[/link] \\[/]",
    "combining": "Z" + "\u0301\u0489" * 300,
}


def hostile_answers(texts: Mapping[str, str] = TEXTS) -> list[Answered]:
    """A clean and a perturbed answer with each of the texts, in every field that takes a text."""
    answers = []
    for number, (name, text) in enumerate(texts.items()):
        for perturbation in (None, {"kind": "typos", "name": "typos"}):
            source, end = f"row-{number:02d}", min(6, len(text))
            prompt = {
                "prompt_id": f"{source}/typos" if perturbation else source,
                "source_id": source,
                "category": ("harmful", "helpful")[number % 2],
                "perturbation": perturbation,
                "attempts": [text],
            }
            said = f"{text} {name}" if perturbation else text
            response = {"response": said, "attempt": 0, "finish_reason": "stop", "thinking": text}
            response["error"] = {"type": "Error", "message": text}
            evidence = {"rule": text[:300], "start": 0, "end": end, "text": text[:end]}
            rules = {"label": "refusal", "refused": not perturbation, "score": 0.5}
            rules |= {"evidence": [evidence], "error": text, "reason": text}
            other = {"label": text[:50], "refused": True, "score": None}
            verdicts = {"rules": rules, "other": other | {"evidence": [], "error": None}}
            outcome = ("compliance", "1") if perturbation else ("refusal", "")
            answers.append(Answered("one", "s", prompt, response, verdicts, *outcome, "stop"))
    return answers
