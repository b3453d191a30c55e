"""A document's pages in slices: what a parsing process tells of each, and what another needs to go on after it."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Slice:
    """Some pages of a document that are taken through a step."""

    step: str  # "": all of them
    first: int  # place of the first page, from 0
    end: int  # behind the last


@dataclass(frozen=True, slots=True)
class Begun:
    """What a process begins, and the seconds of processor time that it may take."""

    slice: Slice | None  # None: what is no work on single pages
    seconds: float


@dataclass(frozen=True, slots=True)
class Done:
    """What a process found on the pages of a slice, packed, and which pages were lost so far."""

    slice: Slice
    found: bytes
    lost: dict[int, str]


@dataclass(slots=True)
class Progress:
    """How far the work on a document has come."""

    found: dict[tuple[str, int], bytes] = field(default_factory=dict)  # packed, by step and first page of the slice
    lost: dict[int, str] = field(default_factory=dict)  # why, by the number of the page, from 1
    is_careful: bool = False  # each page is a slice of its own
    begun: Slice | None = None

    def note(self, message: Begun | Done) -> None:
        """Remember what a process said."""
        if isinstance(message, Begun):
            self.begun = message.slice
        else:
            self.found[message.slice.step, message.slice.first] = message.found
            self.lost, self.begun = message.lost, None

    def outlives(self, reason: str) -> bool:
        """Whether another process may go on where one failed: page by page, and then without the page that did it."""
        begun, self.begun = self.begun, None
        if begun is None:
            return False
        if begun.end - begun.first > 1:
            self.is_careful = True
        elif begun.end in self.lost:
            return False
        else:
            self.lost[begun.end] = reason
        return True
