"""Where the text of a published judge stands, and taking it out of its file.

A file is parsed and never run: of Python and of notebooks by ``ast``, of YAML and JSON as data.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from refract.core.errors import RefractError
from refract.core.settings import Settings


class SourceError(RefractError, RuntimeError):
    """A published text cannot be had, or is not the one that was meant."""


Line = Annotated[str, Field(min_length=1)]


class Source(Settings):
    """A published text: the file it stands in, its place there, its SHA-256 as UTF-8."""

    package: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+==[A-Za-z0-9.]+$")] | None = Field(
        None, description="a package of the index, as name==version"
    )
    repository: Annotated[str, Field(pattern=r"^[\w.-]+/[\w.-]+@[0-9a-f]{40}$")] | None = Field(
        None, description="a repository of github.com at a commit, as owner/name@commit"
    )
    path: Line = Field(description="the file in the package or repository, or a file of your own")
    at: Line | None = Field(
        None,
        description="the place in it: a constant of Python (`Class.NAME`, `function.NAME`, "
        "`NAME['key']`, `function.returns[0]`), a key of YAML or JSON; null: the whole file",
    )
    style: Literal["format", "jinja", "verbatim"] = Field(
        "format", description="how the text names its fields: {name}, {{ name }}, or none"
    )
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] = Field(
        description="of the text as UTF-8"
    )

    @model_validator(mode="after")
    def _one_place(self) -> Source:
        if self.package and self.repository:
            raise ValueError("a text stands in a package or in a repository, not in both")
        return self

    def __str__(self) -> str:
        where = self.package or self.repository
        return " ".join(part for part in (where, self.path, self.at) if part)

    def check(self, text: str) -> str:
        """The text, if it is the one meant. Raises :class:`SourceError` that shows both hashes."""
        found = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        if found != self.sha256:
            raise SourceError(
                f"{self}: this is another text than the published one: its SHA-256 is {found}, and "
                f"{self.sha256} is expected; nothing was judged with it"
            )
        return text

    def take(self, data: bytes) -> str:
        """The text in the bytes of its file, checked. Raises :class:`SourceError`."""
        try:
            whole = data.decode("utf-8")
            text = whole if self.at is None else _at(whole, self.path, self.at)
        except (ValueError, SyntaxError, LookupError, TypeError, RecursionError) as error:
            raise SourceError(f"{self}: the text is not there: {error}") from None
        return self.check(text)


def _at(whole: str, path: str, at: str) -> str:
    kind = PurePosixPath(path).suffix
    steps = _steps(ast.parse(at, mode="eval").body)
    if kind == ".py":
        return _python(ast.parse(whole), steps)
    if kind == ".ipynb":
        return _notebook(json.loads(whole), steps)
    if kind in (".yaml", ".yml", ".json"):
        found = _data(whole, kind)
        for step in steps:
            found = found[step]
        if not isinstance(found, str):
            raise ValueError(f"{at} is no text")
        return found
    raise ValueError(f"{kind or path} is none of .py, .ipynb, .yaml and .json")


def _data(whole: str, kind: str) -> Any:
    if kind == ".json":
        return json.loads(whole)
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        return YAML(typ="safe", pure=True).load(whole)
    except YAMLError as error:
        raise ValueError(f"not YAML: {str(error).splitlines()[0]}") from None


def _steps(node: ast.expr) -> list[Any]:
    """``A.b['c'][0]`` as A, b, c, 0."""
    match node:
        case ast.Name():
            return [node.id]
        case ast.Attribute():
            return [*_steps(node.value), node.attr]
        case ast.Subscript(slice=ast.Constant(value=key)):
            return [*_steps(node.value), key]
    raise ValueError(f"{ast.unparse(node)!r} is no place in a file")


def _notebook(notebook: Any, steps: list[Any]) -> str:
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        try:
            return _python(ast.parse("".join(cell["source"])), steps)
        except (SyntaxError, LookupError):  # a cell of shell commands, or another cell
            continue
    raise LookupError(f"no cell assigns {steps[0]}")


def _python(tree: ast.AST, steps: list[Any]) -> str:
    node = tree
    for step in steps:
        node = _member(node, step)
    return _text(node)[0]


def _member(node: ast.AST, step: Any) -> ast.AST:
    if isinstance(node, ast.FunctionDef) and step == "returns":
        given = [part.value for part in ast.walk(node) if isinstance(part, ast.Return)]
        return ast.List(sorted(filter(None, given), key=lambda value: value.lineno))
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        found = [value for name, value in _named(node.body) if name == step]
        if not found:
            raise LookupError(f"nothing is called {step}")
        return found[-1]
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            constant = isinstance(key, ast.Constant) and key.value == step
            if constant or (isinstance(key, ast.Attribute) and ast.unparse(key) == step):
                return value
    if isinstance(node, ast.List | ast.Tuple) and isinstance(step, int):
        return node.elts[step]
    raise LookupError(f"there is no {step!r} in it")


def _named(body: list[ast.stmt]) -> Iterator[tuple[str, ast.AST]]:
    """What the statements of one scope name, those of blocks within it included."""
    for statement in body:
        match statement:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                yield statement.name, statement
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                yield name, value
            case _:
                for block in ("body", "orelse", "finalbody"):
                    yield from _named(getattr(statement, block, []))


def _text(node: ast.AST) -> tuple[str, bool]:
    """The text of an expression, and whether it is a joined string (``f"…"``), whose names become
    fields: braces that are text are then doubled, as ``str.format`` has them."""
    match node:
        case ast.Constant(value=str() as text):
            return text, False
        case ast.JoinedStr(values=values):
            return "".join(_piece(value) for value in values), True
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            parts = [_text(left), _text(right)]
            joined = any(is_joined for _, is_joined in parts)
            texts = [_doubled(t) if joined and not is_joined else t for t, is_joined in parts]
            return "".join(texts), joined
        case ast.Call(func=ast.Attribute(value=value, attr="strip"), args=[], keywords=[]):
            text, joined = _text(value)
            return text.strip(), joined
    raise ValueError(f"{type(node).__name__} is no constant text")


def _piece(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=str() as text):
            return _doubled(text)
        case ast.FormattedValue(value=ast.Name(id=name), conversion=-1, format_spec=None):
            return f"{{{name}}}"
    raise ValueError(f"{ast.unparse(node)} is no plain field")


def _doubled(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
