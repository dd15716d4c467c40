from __future__ import annotations

import json
from pathlib import Path

from refract.core.jsonl import write_rows
from stages.generate_perturbations import main


def test_a_sample_larger_than_its_suite_is_a_warning_and_a_tag(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [{"id": f"{n}", "category": "helpful", "prompt": f"What is {n}?"} for n in range(7)]
    write_rows(Path("data/suites/small.jsonl"), rows)
    own = {"file": "data/suites/small.jsonl", "judges": ["rules"], "perturbations": []}
    params = {
        "seed": 0,
        "grid": {"models": ["m"], "suites": ["small", "whole"]},
        "suites": {"small": own | {"sample": 100}, "whole": own | {"sample": 7}},
        "perturbations": {},
        "models": {"m": {"adapter": "synthetic"}},
        "judges": {"rules": {"kind": "rules"}},
    }
    Path("params.yaml").write_text(json.dumps(params))  # JSON is YAML
    main()
    run = json.loads(Path("data/runs/generate-perturbations.json").read_text())
    assert run["warnings"] == ["small: all 7 prompts are taken; sample is 100"]
    labels = json.loads(Path("data/prompts/labels.json").read_text())
    assert labels == {"small": "small[all 7, sample 100]", "whole": "whole"}
