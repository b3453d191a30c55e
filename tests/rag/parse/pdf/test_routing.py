import pytest

from rag.parse.pdf.routing import garbage_reason

ENGLISH = "The quick brown fox jumps over the lazy dog while everyone else is having breakfast. " * 3


@pytest.mark.parametrize(
    "text",
    [
        ENGLISH,
        "Die Bundesregierung hat beschlossen, den Vorschlag zu prüfen und rechtzeitig zu antworten. " * 3,
        "Strč prst skrz krk, řekl tchán, a všichni se tomu dlouho a srdečně zasmáli u stolu. " * 3,
        "코로나와 관련하여 보험회사에서 그동안 판매했거나 향후 판매하게 될 보험상품" * 5,
        "ISBN 978-3-16 | 12.5 % | 1,234.00 | (17) | 2022 | -4.2 | " * 10,
        "for (int i = 0; i < n; ++i) { total += values[i]; } " * 5,
        "",
    ],
)
def test_text_is_text(text: str) -> None:
    assert garbage_reason(text) == ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("\ufffd" * 60 + "abc", "the fonts do not say"),
        ("".join(chr(0xE000 + at % 90) for at in range(200)), "the fonts do not say"),
        # Letters shifted by one, as a font with a wrong map gives them.
        ("".join({"a": "Z"}.get(c, chr(ord(c) - 1)) if c.islower() else c for c in ENGLISH), "gibberish"),
        ("~!`^|&%$#@ {}<>+=" * 30, "gibberish"),
    ],
)
def test_garbage_is_named(text: str, reason: str) -> None:
    assert reason in garbage_reason(text)
