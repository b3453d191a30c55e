"""What is right for each awkward PDF: words that a person reads on it, or a reason why it can't be read.

The words were taken from the pages as they look, not from any parser's output.
"""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass

from rapidfuzz import fuzz

_MIN_SIMILARITY = 0.85  # of a phrase on a scan; a letter or two may be misread


@dataclass(frozen=True, slots=True)
class Expected:
    """The right outcome of one file. With both, either will do."""

    words: tuple[str, ...] = ()  # all of them, white space aside
    reason: str = ""  # pattern of the message
    hidden: tuple[str, ...] = ()  # must not be in the text

    def met_by(self, markdown: str, error: str) -> bool:
        """Whether a parser's text or its error is right."""
        if error or not markdown.strip():
            return bool(self.reason) and re.search(self.reason, error, re.IGNORECASE) is not None
        text = _bare(markdown)
        read = bool(self.words) and all(_found(_bare(word), text) for word in self.words)
        return read and not any(_bare(word) in text for word in self.hidden)


def _bare(text: str) -> str:
    """Without white space, accents apart, case and presentation forms."""
    plain = unicodedata.normalize("NFKD", re.sub(r"<[^>]*>|[*_|\\#-]", "", text))
    return "".join(c for c in plain.casefold() if not c.isspace() and not unicodedata.combining(c))


def _found(word: str, text: str) -> bool:
    if word in text:
        return True
    return len(word) >= 8 and fuzz.partial_ratio(word, text) >= 100 * _MIN_SIMILARITY


EXPECTED: Mapping[str, Expected] = {
    # encrypted: the passwords come from the configuration
    "libreoffice-writer-password": Expected(("Lorem ipsum dolor sit amet, consetetur sadipscing elitr",)),
    "health_protected": Expected(("Health Sector Financing by Centre and States/UTs", "10,559,558")),
    "aes-256-r6": Expected(("Hello World",)),
    "copy_protected": Expected(("LayoutParser: A Unified Toolkit for Deep Learning", "Allen Institute for AI")),
    "empty_protected": Expected(reason="blank|no text"),
    # broken
    "zero_bytes": Expected(reason="empty|zero bytes|no text"),
    "fake-jpg": Expected(reason="jpe?g|image"),
    "poppler-742-0-fuzzed": Expected(reason="damaged|encrypted|not readable"),
    "bug1020226": Expected(reason="damaged|no pages|cut off"),
    "zen_of_python_corrupted": Expected(("Beautiful is better than ugly.", "Readability counts.")),
    "no_contents": Expected(reason="blank|no text"),
    # rotated
    "habibi-rotated": Expected(("habibi", "حبيبي")),
    "nics-background-checks-2015-11-rotated": Expected(("Permit", "Long Gun", "Alabama", "18,870", "36,421")),
    "clockwise_table_1": Expected(("STATE WISE COVERAGE PARTICULARS", "Maharashtra", "12606")),
    "rotation": Expected(("This is my first page with normal layout.", "It will have a landscape layout.")),
    # scanned
    "ocr_test": Expected(("Docling bundles PDF document conversion to", "Markdown in an easy self contained package")),
    "image_only_german_pdf": Expected(
        (
            "Bayerisches Staatsministerium für Wissenschaft und Kunst",
            "Stellungnahme Archivgesetz; Verbändeanhörung",
            "Mit freundlichen Grüßen",
            "Dr. Rudolf Neumaier",
        )
    ),
    "chinese_scan": Expected(("中国公司年度报告", "主要业务领域", "自然语言处理", "感谢股东们的信任与支持")),
    "rotated_skew": Expected(
        ("32 Track MIDI Sequence Recorder", "Recording a Sequence", "Composition Without Compromise")
    ),
    "horribleocr": Expected(("The natives soon had reason to suspect the", "Dominican friars", "Fernando Vinagre")),
    # columns
    "multicolumn": Expected(("Two-Column Document with Lorem Ipsum", "Lorem ipsum dolor sit amet, consectetuer")),
    "dolma-page-1": Expected(
        ("an Open Corpus of Three Trillion Tokens", "Language models are now central to tackling")
    ),
    "small_page_size": Expected(
        ("ten-fold, and in few less than four or five-fold", "Bone is known to consist of about equal parts of")
    ),
    "PDFUA-Ref-2-03_AcademicAbstract": Expected(
        ("hidden features of the PDF format", "Dietrich von Seggern", "Embedding logical structure in PDF for")
    ),
    # tables
    "WARN-Report-for-7-1-2015-to-03-25-2016": Expected(("Notice Date", "Complete Genomics, Inc.", "Mountain View")),
    "schools": Expected(("Lidstad", "10132 Waterfront Dr.", "Public Schools")),
    "argentina_diputados_voting_record": Expected(("Votos Afirmativos", "Daniel Agustín", "Santiago del Estero")),
    "tableception": Expected(("DISEASE OUTBREAKS OF PREVIOUS WEEKS REPORTED LATE", "Dengue", "2103")),
    "table_mislabeled_as_picture": Expected(
        ("They coordinate appointments of private", "They conduct or organize training")
    ),
    "SPARSE-2024-INV-1234_borderless_table": Expected(("INVENTORY RECONCILIATION REPORT", "SKU-8847", "A-12")),
    # scripts
    "right_to_left_01": Expected(("تحسين", "من خلال البرمجة بلغة", "Python")),
    "indictb1h_14": Expected(("תוצר מקומי גולמי", "סך הכל", "11.6")),
    "normal_4pages": Expected(("들어가며", "세계보건기구", "9,661")),
    "issue-71-duplicate-chars": Expected(
        ("计算机科学与技术（应用技术）", "负责四川省甘孜州丹巴磨子电站引水隧洞爆破方案优化设计")
    ),
    "jo": Expected(("わたくしといふ現象は", "假定された有機交流電燈の", "ひとつの青い照明です")),
    # forms
    "f1040nr": Expected(("U.S. Nonresident Alien Income Tax Return", "Identifying number", "Itemized Deductions")),
    "libreoffice-form": Expected(("Example for a Form", "First Name", "Nationality", "Alice")),
    # fonts
    "cid-font-no-tounicode": Expected(
        ("The quick brown fox jumps over the lazy dog 0123456789",), reason="unreadable|characters they draw"
    ),
    "type3_font_nomapping": Expected(("ua",), reason="unreadable|characters they draw"),
    # hazards
    "invisible_text_layer": Expected(("Visible heading line",), hidden=("Invisible OCR text layer",)),
    "sanitization-targets": Expected(("Sanitization rule triggers", "alice.smith@example.org", "192.168.0.42")),
    "large_prompt_hint1": Expected(("How to do the Basics", "Other Little Helpful Hints", "Creating a Thesis")),
    "blank_page": Expected(reason="blank|no text"),
    "overrun_on_pg8": Expected(("Extensible Programming Language Design Architecture", "Villeurbanne, France")),
    "amt_handbook_sample": Expected(("provided the inner race of the bearing is clamped", "The wing type")),
    "multi_page": Expected(("The Evolution of the Word Processor", "Legal Document Processors")),
}
