import pytest

from rag.parse.html import parse_html

LINKS = "".join(f'<a href="/{name}">{name}</a> ' for name in ("Home", "Products", "Careers", "Press", "Contact"))
TEXT = "<h1>Leave</h1><p>You get 25 days of leave a year, and can move five into the next one.</p>"


def text_of(body: str) -> str:
    return "\n".join(block.text for block in parse_html(f"<html><body>{body}</body></html>").blocks)


@pytest.mark.parametrize(
    "navigation",
    [
        f"<div>{LINKS}</div>",
        f"<ul>{''.join(f'<li>{link}</li>' for link in LINKS.split('> ')[:5])}</ul>",
        f'<div class="site-footer">All rights reserved. {LINKS}</div>',
        f'<section role="navigation">{LINKS}</section>',
        f'<div id="breadcrumb">You are here: {LINKS}</div>',
        '<div class="cookie-banner">We use cookies. <button>OK</button> Read more about them.</div>',
    ],
)
def test_navigation_is_left_out_whatever_it_is_made_of(navigation: str) -> None:
    assert text_of(f"{navigation}{TEXT}{navigation}") == text_of(TEXT)


@pytest.mark.parametrize(
    "content",
    [
        '<p>Ask <a href="/a">the desk</a>, <a href="/b">the office</a>, <a href="/c">HR</a> or <a href="/d">Ann</a> '
        "about what to do when you are ill and far from home.</p>",
        "<ul>"
        + "".join(
            f'<li><a href="/{n}">How to book a room with {n} seats for a whole day of meetings</a></li>'
            for n in range(5)
        )
        + "</ul>",
        '<div class="sidebar">The deadline is the last day of March, whatever your manager says about it.</div>',
        '<table><tr><th>tool</th><th>use</th></tr><tr><td><a href="/x">X</a></td><td>writing reports</td></tr></table>',
        '<div class="cookie-recipes">' + "Mix the flour with the sugar and bake it well. " * 12 + "</div>",
    ],
)
def test_links_and_sidebars_that_say_something_stay(content: str) -> None:
    without_markup = text_of(f"<h1>Leave</h1>{content}").replace("Leave\n", "")
    assert len(without_markup) > 20
    assert without_markup in text_of(f"{TEXT}{content}")


def test_a_list_of_links_in_the_main_part_of_a_page_stays() -> None:
    assert "Products" in text_of(f"<main>{TEXT}<div>{LINKS}</div></main>")
    assert "Products" not in text_of(f"<main>{TEXT}</main><div>{LINKS}</div>")


def test_a_page_of_links_alone_keeps_them() -> None:
    assert "Careers" in text_of(f"<div>{LINKS}</div>")
