from datetime import UTC, datetime

from tests.rag.parse.parsing import parse, shown

PAGE = """<!doctype html><html lang="en-GB"><head><title> Expense
 rules </title><meta name="Last-Modified" content="Tue, 05 Mar 2024 10:00:00 +0200">
<meta property="article:published_time" content="2020-01-01"><style>p {}</style></head>
<body><nav>Menu</nav><header>Banner</header><main><header><h1>Expenses</h1></header>
<p>Keep <b>every</b> receipt.<script>track()</script><br>Always.</p><div>Loose text<p>Next</p></div>
<ul><li>One<ul><li>Inner</li></ul></li><li><p>Two</p><p>more</p></li></ul>
<table><thead><tr><th>Level</th><th colspan="2">Limits</th></tr></thead>
<tr><td rowspan="2">L1</td><td>10</td><td>a|b</td></tr><tr><td>20</td><td>30</td></tr></table>
<pre>x = 1
  y = 2</pre><p hidden>Ignore me</p><p style="display: none">And me</p>
</main><footer>Imprint</footer></body></html>"""


def test_the_main_content_becomes_blocks_and_the_rest_is_dropped() -> None:
    assert shown(parse(PAGE, "a.html")) == [
        ("heading1", "Expenses"),
        ("paragraph", "Keep every receipt. Always."),
        ("paragraph", "Loose text"),
        ("paragraph", "Next"),
        ("list", "- One\n  - Inner\n- Two\n  more"),
        (
            "table",
            '<table>\n<tr><th>Level</th><th colspan="2">Limits</th></tr>\n'
            '<tr><td rowspan="2">L1</td><td>10</td><td>a|b</td></tr>\n<tr><td>20</td><td>30</td></tr>\n</table>',
        ),
        ("code", "```\nx = 1\n  y = 2\n```"),
    ]


def test_the_head_gives_title_date_and_language() -> None:
    metadata = parse(PAGE, "a.html").metadata
    assert metadata.title == "Expense rules"
    assert metadata.updated_at == datetime(2024, 3, 5, 8, tzinfo=UTC)
    assert metadata.language == "en"


def test_a_table_that_only_places_text_is_no_table() -> None:
    page = "<table><tr><td><h2>A</h2><p>x</p></td></tr></table><table><tr><td><table><tr><td>in</td></tr></table>"
    assert shown(parse(page, "a.html")) == [("heading2", "A"), ("paragraph", "x"), ("paragraph", "in")]


def test_a_huge_span_is_cut() -> None:
    page = "<table><tr><td colspan=1000000000>a</td><td>b</td></tr></table>"
    assert len(parse(page, "a.html").text) < 2_000


def test_a_page_without_title_takes_its_heading_and_then_its_name() -> None:
    assert parse("<h1>Heading</h1><p>x", "d/a.html").metadata.title == "Heading"
    assert parse("<p>x", "d/a.html").metadata.title == "a"
    assert parse("<p>x", "d/index.html").metadata.title == "d"
