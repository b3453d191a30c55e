"""Who may read which document of the sample? Read from its rules and rows alone, with none of the code under test."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

import yaml

from bench.report import need
from rag.data import Principal


@dataclass(frozen=True, slots=True)
class Readers:
    """Members of any of the groups, inside the tenant."""

    tenant: str
    groups: frozenset[str]


class SampleAccess:
    """The sample's access rules, and the rows of its exports that name their own groups."""

    def __init__(
        self, rules: list[tuple[re.Pattern[str], Readers]], files: frozenset[str], rows: dict[str, Readers | None]
    ):
        self._rules, self._files, self._rows = rules, files, rows

    def exists(self, uri: str) -> bool:
        """Whether the corpus holds the document: a file, or a row of an export."""
        return uri in self._rows if "#" in uri else uri in self._files

    def may_read(self, principal: Principal, uri: str) -> bool:
        """Whether the principal may read the document; nobody may read one that no rule covers."""
        readers = self._rows.get(uri) or self._rule(uri.partition("#")[0])
        return readers is not None and readers.tenant == principal.tenant and bool(readers.groups & principal.groups)

    def _rule(self, path: str) -> Readers | None:
        return next((readers for pattern, readers in self._rules if pattern.fullmatch(path)), None)


def read_sample_access(sample: Path, corpus: Path) -> SampleAccess:
    """The access of the sample whose access.yaml is in `sample` and whose built corpus is in `corpus`."""
    loaded = yaml.safe_load(need(sample / "access.yaml", "the access rules").read_text(encoding="utf-8"))
    rules = [(_glob(rule["pattern"]), Readers(rule["tenant"], frozenset(rule["groups"]))) for rule in loaded["rules"]]
    files = frozenset(path.relative_to(corpus).as_posix() for path in corpus.rglob("*") if path.is_file())
    rows: dict[str, Readers | None] = {}
    for name in sorted(files):
        if not name.endswith(".jsonl"):
            continue
        tenant = next(readers.tenant for pattern, readers in rules if pattern.fullmatch(name))
        for line in (corpus / name).read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            own = row.get("groups")
            rows[f"{name}#{row['id']}"] = None if own is None else Readers(tenant, frozenset(own))
    return SampleAccess(rules, files, rows)


def _glob(pattern: str) -> re.Pattern[str]:
    """`**` crosses folders, `*` stays in one; the sample uses nothing else."""
    parts = re.split(r"(\*+)", pattern)
    return re.compile("".join(".*" if p == "**" else "[^/]*" if p == "*" else re.escape(p) for p in parts))
