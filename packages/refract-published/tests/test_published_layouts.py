"""Each importer of the catalogue reads a made-up file in its publisher's layout.

``python test_published_layouts.py`` writes what the importers make of the files into
``published_layouts.yaml``, to be read before it is committed."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from refract_published.catalogues import SUITES, names_in
from refract_published.citing import references
from refract_published.importing import find_importer, import_file, write_suite

LAYOUTS = Path(__file__).with_name("published_layouts.yaml")
SAMPLES: dict[str, dict[str, Any]] = yaml.safe_load(LAYOUTS.read_text("utf-8"))


def write(path: Path, content: Any) -> None:
    """A text, or rows in the form that the file's name ends in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pyarrow = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(pyarrow.Table.from_pylist(content), path)
        return
    if isinstance(content, str):
        text = content
    elif path.suffix == ".json":
        text = json.dumps(content)
    elif path.suffix == ".jsonl":
        text = "".join(f"{json.dumps(row)}\n" for row in content)
    else:
        file = io.StringIO()
        table = csv.DictWriter(file, list(content[0]), delimiter=",\t"[path.suffix == ".tsv"])
        table.writeheader()
        table.writerows(content)
        text = file.getvalue()
    path.write_bytes(text.encode())


def imported(kind: str, folder: Path) -> list[dict[str, Any]]:
    sample = SAMPLES[kind]
    for name, content in sample["files"].items():
        write(folder / name, content)
    source = folder if sample.get("folder") else folder / next(iter(sample["files"]))
    made = import_file(kind, source, suite=kind)
    write_suite(made, folder / "made/suite.jsonl")
    return made.rows


@pytest.mark.parametrize("kind", names_in(SUITES))
def test_a_file_in_the_publishers_layout_becomes_these_rows(kind, tmp_path):
    assert imported(kind, tmp_path) == SAMPLES[kind]["rows"]


def test_the_list_names_rows_licence_source_and_citation_of_each(cli):
    lines = cli("import-suite", "--list").out.splitlines()
    for kind in names_in(SUITES):
        entry: Any = find_importer(kind)
        at = next(n for n, line in enumerate(lines) if line.startswith(f"{kind}: "))
        said = "rows not known" if entry.rows is None else f"{entry.rows:,} rows"
        assert lines[at] == f"{kind}: {said}; {entry.licence}; {'gated' if entry.gated else 'open'}"
        cited = lines[at + 1].removeprefix(f"  {entry.title}; cite ")
        assert references()[cited].get("eprint", "") in entry.title
        assert lines[at + 2] == f"  {entry.file}"


if __name__ == "__main__":
    import tempfile

    for kind in names_in(SUITES):
        SAMPLES[kind]["rows"] = imported(kind, Path(tempfile.mkdtemp()))
    written = yaml.safe_dump(SAMPLES, allow_unicode=True, sort_keys=False, width=110)
    LAYOUTS.write_text(f"# Made up; see test_published_layouts.py.\n{written}", "utf-8")
