"""The hard documents on which the suite measures quire's parser at every run, and the scores that may not fall."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import SecretStr

from bench.parse_sets import ParseCase, Scores, read_set
from bench.report import PROJECT, out
from rag.config import RagConfig, load_config
from rag.data import Access, DocumentMetadata, RawDocument
from rag.errors import ParseError
from rag.ids import digest
from rag.parse.render import document_markdown
from rag.parts import build_parser
from rag.protocols import Parser

CONFIG = PROJECT / "serve_configs" / "local" / "rag.yaml"
BASELINE = PROJECT / "tests" / "rag" / "parse" / "regression.json"
DOCUMENTS: Mapping[str, tuple[str, ...]] = {  # every kind of difficulty, few pages each
    "tables-icdar2013": (
        "eu-001", "eu-005", "eu-009a", "eu-013", "eu-017", "eu-021", "us-001", "us-007", "us-013", "us-017", "us-021",
        "us-023", "us-029", "us-033", "us-037",
    ),
    "text-arxiv": ("1601.03642", "2201.00200"),
    "unit-tests": (
        "blank_book_pg1", "discoverworld_crazy_table4", "headers_footers__ff0f0b22c55d8b90dd77d153f48e144fc9db_pg2",
        "headers_footers__ff3d6e051903fe5ca9bc172ece14964c5632_pg1",
        "headers_footers__ff518b1240a66978f22035528ccb029450b5_pg2",
        "headers_footers__fff590bed29a2854ac1f874dad5752ede1aa_pg1", "math_2503_04086", "mathfuncs_colswitch",
        "multi_column_miss", "openstax_caculus_pg_273",
    ),
    "awkward": (
        "PDFUA-Ref-2-03_AcademicAbstract", "SPARSE-2024-INV-1234_borderless_table", "aes-256-r6",
        "amt_handbook_sample", "argentina_diputados_voting_record", "cid-font-no-tounicode", "clockwise_table_1",
        "copy_protected", "habibi-rotated", "indictb1h_14", "invisible_text_layer", "jo", "libreoffice-form",
        "multi_page", "multicolumn", "nics-background-checks-2015-11-rotated", "normal_4pages", "ocr_test",
        "poppler-742-0-fuzzed", "right_to_left_01", "small_page_size", "table_mislabeled_as_picture", "zero_bytes",
    ),
}  # fmt: skip


def parser_config(passwords: Sequence[str]) -> RagConfig:
    """The configuration of one machine with passwords for encrypted PDFs."""
    config = load_config(CONFIG)
    parse = config.parse.model_copy(update={"passwords": tuple(map(SecretStr, passwords))})
    return config.model_copy(update={"parse": parse})


def build_measured_parser(data: Path) -> Parser:
    """The parser that is measured: it knows the passwords of the awkward files."""
    passwords = sorted({case.password for case in read_set(data, "awkward")} - {""})
    return build_parser(parser_config(passwords))


def read_cases(data: Path, set_name: str) -> list[ParseCase]:
    """The documents of the regression suite that belong to the set, by name."""
    return [case for case in read_set(data, set_name) if case.name in DOCUMENTS[set_name]]


def measure(case: ParseCase, parser: Parser) -> Scores:
    """The document's scores as this process parses it."""
    content = case.path.read_bytes()
    metadata = DocumentMetadata(case.path.name, case.name, Access("bench", ("everyone",)))
    try:
        markdown, error = document_markdown(parser.parse(RawDocument(content, digest(content), metadata))), ""
    except ParseError as failure:
        markdown, error = "", str(failure)
    return {name: round(score, 6) for name, score in case.score(markdown, error).items()}


def read_baseline() -> dict[str, Scores]:
    """The stored scores by "set/document"."""
    stored: dict[str, Scores] = json.loads(BASELINE.read_text(encoding="utf-8"))
    return stored


def write_baseline(data: Path) -> None:
    """Measures every document and stores the scores in place of those before, saying what moved."""
    before = read_baseline() if BASELINE.is_file() else {}
    parser = build_measured_parser(data)
    scores = {
        f"{case.set_name}/{case.name}": measure(case, parser) for name in DOCUMENTS for case in read_cases(data, name)
    }
    for name, found in scores.items():
        for measure_name, score in found.items():
            old = before.get(name, {}).get(measure_name)
            if old is not None and old != score:
                out.print(f"{name}: {measure_name} {old} -> {score}")
    BASELINE.write_text(json.dumps(scores, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    out.print(f"{len(scores)} documents in {BASELINE.relative_to(PROJECT)}")
