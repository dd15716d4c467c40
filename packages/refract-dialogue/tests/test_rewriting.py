"""Prompts as a model says them otherwise."""

import hashlib

import pytest

from refract.core.errors import ParamsError
from refract.core.jsonl import read_rows, write_rows
from refract.models.store import ResponseStore
from refract.project import Project
from refract.suites.perturbations import suite_prompts
from refract_dialogue.asking import write_rewritings


@pytest.fixture
def project(tmp_path):
    rows = [{"id": f"r{n}", "category": "helpful", "prompt": f"Question {n}?"} for n in range(12)]
    write_rows(tmp_path / "own.jsonl", rows)
    kept = {"kind": "rewrite", "model": "writer", "file": str(tmp_path / "kept.jsonl")}
    suite = {"file": "own.jsonl", "judges": ["rules"], "perturbations": ["reworded"]}
    params = {
        "seed": 1,
        "suites": {"own": suite},
        "perturbations": {"reworded": {**kept, "instruction": "Say in other words: {prompt}"}},
        "models": {"writer": {"adapter": "synthetic", "refusal_rate": {"helpful": 0.5}}},
    }
    return Project(tmp_path, params)


def test_a_rewriting_is_asked_once_kept_in_a_file_and_no_variant_where_it_was_declined(project):
    with pytest.raises(ParamsError, match="refract rewrite"):
        suite_prompts(project.params, "own", project.folder)
    path, counts = write_rewritings("reworded", project, ResponseStore(None))
    rows = read_rows(path)
    texts = {row["source_sha256"]: row["text"] for row in rows if row["outcome"] == "compliance"}
    assert counts == {"kept": 0, "refusal": 12 - len(texts), "compliance": len(texts)}
    assert 0 < len(texts) < 12 == len(rows)
    assert [row["source_sha256"] for row in rows] == sorted(row["source_sha256"] for row in rows)
    made = suite_prompts(project.params, "own", project.folder).rows
    variants_of = {row["source_id"]: row["attempts"] for row in made if row["perturbation"]}
    sources = {row["id"]: row["prompt"] for row in read_rows(project.folder / "own.jsonl")}
    sha = {id_: hashlib.sha256(text.encode()).hexdigest() for id_, text in sources.items()}
    assert variants_of == {id_: [texts[sha[id_]]] for id_ in sha if sha[id_] in texts}
    before = path.read_bytes()
    assert write_rewritings("reworded", project, ResponseStore(None))[1] == {"kept": 12}
    assert path.read_bytes() == before


def test_a_rewriting_by_another_model_or_instruction_counts_as_missing(project):
    write_rewritings("reworded", project, ResponseStore(None))
    for key, value in {"model": "other", "instruction": "Else: {prompt}"}.items():
        changed = {**project.params["perturbations"]["reworded"], key: value}
        params = {**project.params, "perturbations": {"reworded": changed}}
        with pytest.raises(ParamsError, match="refract rewrite"):
            suite_prompts(params, "own", project.folder)


def test_of_a_conversation_the_last_turn_is_rewritten(project):
    turns = [{"role": "user", "content": text} for text in ("First?", "Last?")]
    rows = [{"id": "c", "category": "helpful", "messages": turns}]
    write_rows(project.folder / "own.jsonl", rows)
    write_rewritings("reworded", project, ResponseStore(None))
    (kept,) = read_rows(project.folder / "kept.jsonl")
    assert kept["source_sha256"] == hashlib.sha256(b"Last?").hexdigest()
    suite_prompts(project.params, "own", project.folder)  # finds what it needs


def test_only_a_perturbation_of_kind_rewrite_that_a_suite_names_can_be_written(project):
    params = project.params
    params["perturbations"]["typos"] = {"kind": "typos"}
    params["perturbations"]["unused"] = params["perturbations"]["reworded"]
    for name in ("typos", "unused", "absent"):
        with pytest.raises(ParamsError, match=f"perturbations.{name}"):
            write_rewritings(name, project, ResponseStore(None))
