"""Imports point one way: bench, tests -> jobs, cluster -> rag; and rag knows no engine and no network."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = ("rag", "jobs", "cluster", "bench", "tests")
ALLOWED = {
    "rag": {"rag"},
    "jobs": {"jobs", "rag"},
    "cluster": {"cluster", "rag"},
    "bench": {"bench", "jobs", "cluster", "rag"},
    "tests": set(ROOMS),
}
NOT_IN_RAG = {"ray", "fastapi", "starlette", "uvicorn", "httpx", "requests", "aiohttp", "typer"}


def imported_modules(source: str) -> Iterator[str]:
    """Every module that the source imports, at any depth; a relative import as '.'."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "." if node.level == 0 else "."


def files_of(room: str) -> list[Path]:
    return sorted((ROOT / room).rglob("*.py"))


def test_the_walk_sees_nested_and_relative_imports() -> None:
    source = "import a.b\nfrom c import d\ndef f():\n    from e.f import g\n    from . import h\n"
    assert list(imported_modules(source)) == ["a.b", "c", "e.f", "."]


@pytest.mark.parametrize("room", ROOMS)
def test_imports_point_one_way(room: str) -> None:
    files = files_of(room)
    assert files, f"no source under {room}"
    wrong = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in files
        for module in imported_modules(path.read_text(encoding="utf-8"))
        if module == "." or (module.split(".")[0] in ROOMS and module.split(".")[0] not in ALLOWED[room])
    ]
    assert not wrong


def test_the_library_imports_no_engine_and_no_network() -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in files_of("rag")
        for module in imported_modules(path.read_text(encoding="utf-8"))
        if module.split(".")[0] in NOT_IN_RAG
    ]
    assert not wrong


def test_the_library_reads_no_environment_variable() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in files_of("rag")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (isinstance(node, ast.Attribute) and node.attr in {"environ", "getenv"})
        or (isinstance(node, ast.ImportFrom) and node.module == "os" and {a.name for a in node.names} & {"environ"})
    ]
    assert not wrong


def test_importing_the_list_of_parts_loads_no_heavy_library() -> None:
    code = "import sys, rag.parts; print(sorted({'torch', 'transformers', 'faiss', 'ray'} & set(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
