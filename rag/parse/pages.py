"""The pages of a document, one after the other: what a step finds on each, and which of them are lost."""

import re
from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from rag.data import Document, RawDocument
from rag.errors import ParseError, RagError

Found = TypeVar("Found")

# How native libraries say that an allocation failed.
_NO_MEMORY = re.compile(r"malloc|calloc|realloc|bad_alloc|out of memory|failed to allocate|insufficient memory", re.I)


class PageWork:
    """Takes the pages of one document through one step after the other, in this process and without a pause.

    A page whose step fails is lost, and costs itself alone. `rag.parse.worker` has the kind that outlives its process.
    """

    def __init__(self, uri: str, max_lost_pages: int) -> None:
        self._uri, self._max_lost_pages = uri, max_lost_pages
        self.lost: dict[int, str] = {}  # why, by the number of the page, from 1

    def each_page(self, step: str, num_pages: int, find: Callable[[int], Found]) -> Iterator[Found | None]:
        """What `find` gives for the page at each place, from 0; None for a page that is lost.

        The next page has its turn once what was found on the one before is taken. Errors of quire and want of memory
        are no fault of the page, and are raised. Raises ParseError where too many pages are lost, or all.
        """
        for at in range(num_pages):
            yield self._one_page(at, num_pages, find)

    def _one_page(self, at: int, num_pages: int, find: Callable[[int], Found]) -> Found | None:
        if at + 1 not in self.lost:
            try:
                return find(at)
            except RagError:
                raise
            except Exception as error:  # MuPDF raises its own classes, RuntimeError and ValueError alike
                if is_out_of_memory(error):
                    raise
                self.lost[at + 1] = f"damaged: {error}"
        num_lost = len(self.lost)
        if num_lost == num_pages:
            raise ParseError(self._uri, f"no page can be read: {self.lost_in_words}")
        if num_lost > self._max_lost_pages:
            limit = f"parse.max_lost_pages is {self._max_lost_pages}"
            raise ParseError(self._uri, f"{num_lost} of {num_pages} pages are lost ({limit}): {self.lost_in_words}")
        return None

    @property
    def lost_in_words(self) -> str:
        """Each page that is lost, and why."""
        return "; ".join(f"page {number}: {reason}" for number, reason in sorted(self.lost.items()))


class PageParser(Protocol):
    """A parser that leaves it to another who takes a document's pages through its steps, and how."""

    def parse(self, raw: RawDocument, work: PageWork) -> Document: ...


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the error, or one that led to it, says that an allocation failed."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MemoryError) or _NO_MEMORY.search(str(cause)):
            return True
        cause = cause.__cause__ or cause.__context__
    return False
