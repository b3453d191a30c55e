"""Training data on disk: one JSON object a line."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rag.errors import InputError


def json_line_files(path: Path) -> list[Path]:
    """The `.jsonl` and `.jsonl.gz` files of a folder, by name; of anything else, itself."""
    if path.is_dir():
        return sorted(file for file in path.iterdir() if file.name.endswith((".jsonl", ".jsonl.gz")))
    return [path]


def json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:  # Any: one object of JSON a line
    """The objects of the file, gzipped or not, with the numbers of their lines from 1. Raises InputError."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, json.loads(line)
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file or folder") from error
    except (json.JSONDecodeError, gzip.BadGzipFile, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not JSON lines: {error}") from error
