"""The XML inside an Office file, for what its library has no names for."""

from typing import Any, TypeAlias

from lxml import etree

Element: TypeAlias = Any  # lxml's own; it has no types


def parse_part(content: bytes) -> Element:
    """The root element; entities stay unresolved and nothing is fetched."""
    return etree.fromstring(content, etree.XMLParser(resolve_entities=False, no_network=True))
