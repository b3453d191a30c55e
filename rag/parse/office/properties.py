"""What an Office file says about itself."""

import re
from datetime import UTC, datetime
from typing import Protocol

_NO_TITLE = re.compile(
    r"(?i)^((word|excel|powerpoint)[ -](document|presentation)|presentation\d*|document\d*|untitled.*)$"
)


class CoreProperties(Protocol):
    """The properties that DOCX and PPTX share."""

    @property
    def title(self) -> str: ...
    @property
    def modified(self) -> datetime | None: ...
    @property
    def language(self) -> str: ...


def stated_title(properties: CoreProperties) -> str:
    """The title; "" for the names that programs give by themselves."""
    title = " ".join((properties.title or "").split())
    return "" if _NO_TITLE.match(title) else title


def core_fields(properties: CoreProperties) -> dict[str, object]:
    """The fields that a document's description takes."""
    fields: dict[str, object] = {}
    if properties.modified is not None:
        fields["updated_at"] = properties.modified.replace(tzinfo=UTC)
    if properties.language:
        fields["language"] = properties.language
    return fields
