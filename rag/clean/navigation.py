"""Navigation of a web page: menus, breadcrumbs and link lists that are about the site and not about the page."""

import re

from bs4 import BeautifulSoup, Tag

_ROLES = frozenset(["navigation", "menu", "menubar", "banner", "contentinfo", "search", "complementary", "toolbar"])
_NAMES = re.compile(
    r"(?:^|[-_ ])(?:nav(?:bar|igation)?|(?:main|top|side|site|footer)?-?menu|breadcrumbs?|side-?bar|toc|page-?header"
    r"|site-?(?:header|footer)|footer|cookies?(?:-?(?:banner|consent|notice))?|consent|share|social|pagination|pager"
    r"|skip-?links?|related-?(?:links|posts|articles)|tags?-?cloud)(?:$|[-_ ])",
    re.IGNORECASE,
)
_CONTAINERS = ["div", "ul", "ol", "section", "table", "td", "dl", "p"]
_MIN_LINKS = 4
_MIN_DENSITY = 0.8  # share of the text that is in links
_MIN_DENSITY_NAMED = 0.4  # the same where the element is called a menu, a footer or the like
_MAX_LINK_CHARACTERS = 40  # on average: what links to an answer says more
_MAX_NOTICE_CHARACTERS = 400
_NOTICE = re.compile(r"cookie|consent", re.IGNORECASE)


def drop_navigation(soup: BeautifulSoup) -> None:
    """Takes the navigation out of a parsed page, whatever tags it is made of; a page never loses all its text.

    Elements that say what they are by role, class or id count anywhere. Elsewhere an element counts that is hardly more
    than many short links, but only in a page that does not say what its main part is.
    """
    content = soup.find(["main", "article"]) or soup.find(True, attrs={"role": "main"})
    dropped: list[Tag] = []
    inside: set[int] = set()  # ids of what is dropped with them: tags compare by content, which is slow and not meant
    for tag in soup.find_all(True):
        if id(tag) in inside or tag is content or _holds(tag, content):
            continue
        if _is_named(tag) or (content is None and _is_link_list(tag)):
            dropped.append(tag)
            inside.update(id(below) for below in tag.find_all(True))
    kept = soup.get_text(strip=True)
    lost = sum(len(tag.get_text(strip=True)) for tag in dropped)
    if lost < len(kept):
        for tag in dropped:
            tag.decompose()


def _holds(tag: Tag, content: object) -> bool:
    return isinstance(content, Tag) and any(above is tag for above in content.parents)


def _is_named(tag: Tag) -> bool:
    """Whether the element is called navigation, and is not full of text all the same."""
    if tag.get("role") in _ROLES:
        return True
    classes = tag.get("class")
    names = " ".join([*(classes if isinstance(classes, list) else []), str(tag.get("id") or "")])
    if tag.name in ("html", "body", "main", "article") or not _NAMES.search(names):
        return False
    text, linked, _ = _texts(tag)
    if _NOTICE.search(names):
        return text <= _MAX_NOTICE_CHARACTERS
    return linked >= _MIN_DENSITY_NAMED * text


def _is_link_list(tag: Tag) -> bool:
    if tag.name not in _CONTAINERS or tag.find(["p", "pre", "h1", "h2", "h3"]) is not None:
        return False
    text, linked, links = _texts(tag)
    return links >= _MIN_LINKS and linked >= _MIN_DENSITY * text and linked <= _MAX_LINK_CHARACTERS * links


def _texts(tag: Tag) -> tuple[int, int, int]:
    """Characters of the element, characters of its links, and how many links it has."""
    links = [len(" ".join(link.get_text(" ").split())) for link in tag.find_all("a")]
    return len(" ".join(tag.get_text(" ").split())), sum(links), len(links)
