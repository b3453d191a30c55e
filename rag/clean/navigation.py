"""Navigation of a web page: menus, breadcrumbs and link lists that are about the site and not about the page."""

import re
from dataclasses import dataclass

from bs4 import BeautifulSoup, Tag
from bs4.element import CData, NavigableString

_ROLES = frozenset(["navigation", "menu", "menubar", "banner", "contentinfo", "search", "complementary", "toolbar"])
_NAMES = re.compile(
    r"(?:^|[-_ ])(?:nav(?:bar|igation)?|(?:main|top|side|site|footer)?-?menu|breadcrumbs?|side-?bar|toc|page-?header"
    r"|site-?(?:header|footer)|footer|cookies?(?:-?(?:banner|consent|notice))?|consent|share|social|pagination|pager"
    r"|skip-?links?|related-?(?:links|posts|articles)|tags?-?cloud)(?:$|[-_ ])",
    re.IGNORECASE,
)
_BODY_TEXT = frozenset(["p", "pre", "h1", "h2", "h3"])  # a list of links holds none of these
_CONTAINERS = ["div", "ul", "ol", "section", "table", "td", "dl", "p"]
_MIN_LINKS = 4
_MIN_DENSITY = 0.8  # share of the text that is in links
_MIN_DENSITY_NAMED = 0.4  # the same where the element is called a menu, a footer or the like
_MAX_LINK_CHARACTERS = 40  # on average: what links to an answer says more
_MAX_NOTICE_CHARACTERS = 400
_NOTICE = re.compile(r"cookie|consent", re.IGNORECASE)


@dataclass(slots=True)
class _Holding:
    """What stands below an element."""

    text: int = 0  # characters
    linked: int = 0  # characters that are in links
    links: int = 0
    has_body_text: bool = False

    def add(self, below: "_Holding") -> None:
        """Counts what an element below holds."""
        self.text += below.text
        self.linked += below.linked
        self.links += below.links
        self.has_body_text |= below.has_body_text


def drop_navigation(soup: BeautifulSoup) -> None:
    """Takes the navigation out of a parsed page, whatever tags it is made of; a page never loses all its text.

    Elements that say what they are by role, class or id count anywhere. Elsewhere an element counts that is hardly more
    than many short links, but only in a page that does not say what its main part is.
    """
    content = soup.find(["main", "article"]) or soup.find(True, attrs={"role": "main"})
    # Elements by identity: tags compare by content, which is slow and not meant.
    passed = {id(content), *(id(above) for above in content.parents)} if isinstance(content, Tag) else set()
    holdings = _holdings(soup)
    dropped: list[Tag] = []
    for tag in soup.find_all(True):
        if id(tag) in passed:
            continue
        held = holdings[id(tag)]
        if _is_named(tag, held) or (content is None and _is_link_list(tag, held)):
            dropped.append(tag)
            passed.update(id(below) for below in tag.find_all(True))
    if sum(holdings[id(tag)].text for tag in dropped) < holdings[id(soup)].text:
        for tag in dropped:
            tag.decompose()


def _holdings(soup: BeautifulSoup) -> dict[int, _Holding]:
    """What each element holds, by its identity: one way backwards through the page, however deep it is nested."""
    holdings = {id(soup): _Holding()}
    elements = list(soup.descendants)
    holdings |= {id(element): _Holding() for element in elements if isinstance(element, Tag)}
    for element in reversed(elements):
        above = holdings[id(element.parent)]
        if isinstance(element, Tag):
            held = holdings[id(element)]
            if element.name == "a":
                held.linked, held.links = held.text, held.links + 1
            above.add(held)
            above.has_body_text |= element.name in _BODY_TEXT
        elif type(element) in (NavigableString, CData):  # and no script, style or comment
            words = str(element).split()
            above.text += sum(map(len, words)) + len(words)
    return holdings


def _is_named(tag: Tag, held: _Holding) -> bool:
    """Whether the element is called navigation, and is not full of text all the same."""
    if tag.get("role") in _ROLES:
        return True
    classes = tag.get("class")
    names = " ".join([*(classes if isinstance(classes, list) else []), str(tag.get("id") or "")])
    if tag.name in ("html", "body", "main", "article") or not _NAMES.search(names):
        return False
    if _NOTICE.search(names):
        return held.text <= _MAX_NOTICE_CHARACTERS
    return held.linked >= _MIN_DENSITY_NAMED * held.text


def _is_link_list(tag: Tag, held: _Holding) -> bool:
    if tag.name not in _CONTAINERS or held.has_body_text or held.links < _MIN_LINKS:
        return False
    return held.linked >= _MIN_DENSITY * held.text and held.linked <= _MAX_LINK_CHARACTERS * held.links
