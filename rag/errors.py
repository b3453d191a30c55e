"""Every error that quire raises on purpose. A message names the thing, its value and what was expected."""

from pathlib import Path


class RagError(Exception):
    """The root: anything quire raises on purpose is one of these."""

    trace_id = ""  # of the trace that the question left behind, where it ended one


class ConfigError(RagError):
    """A configuration file is missing, misspelt or out of range."""


class InputError(RagError):
    """The caller asked for something that can't be done; asking again the same way won't help."""


class Unauthenticated(RagError):
    """The caller did not prove who they are."""


class NotFound(RagError):
    """The thing does not exist, or the caller may not know that it does."""


class ParseError(RagError):
    """A document can't be turned into text; `reason` says why, in words for its owner."""

    def __init__(self, uri: str, reason: str) -> None:
        super().__init__(uri, reason)  # all arguments, so that the error survives pickling between processes
        self.uri, self.reason = uri, reason

    def __str__(self) -> str:
        return f"{self.uri}: {self.reason}"


class IndexMismatch(RagError):
    """The index on disk was built by other settings than the ones that would read it."""


class IndexDamaged(RagError):
    """A file of the index is missing or does not have the checksum that its manifest records."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class ShardUnavailable(RagError):
    """A shard gave no answer in time; the search may go on without it."""

    def __init__(self, shard: int, waited_ms: float) -> None:
        super().__init__(shard, waited_ms)
        self.shard, self.waited_ms = shard, waited_ms

    def __str__(self) -> str:
        return f"shard {self.shard} gave no answer within {self.waited_ms:.0f} ms"


class ModelError(RagError):
    """A model is missing, damaged, or answered with something that it must not answer."""


class Overloaded(RagError):
    """A stage has more work than it may queue; try again after `retry_after_s` seconds."""

    def __init__(self, stage: str, retry_after_s: float) -> None:
        super().__init__(stage, retry_after_s)
        self.stage, self.retry_after_s = stage, retry_after_s

    def __str__(self) -> str:
        return f"{self.stage} is at its queue limit; retry after {self.retry_after_s:.0f} s"


class DeadlineExceeded(RagError):
    """A stage did not end within its deadline."""

    def __init__(self, stage: str, deadline_s: float) -> None:
        super().__init__(stage, deadline_s)
        self.stage, self.deadline_s = stage, deadline_s

    def __str__(self) -> str:
        return f"{self.stage} did not end within {self.deadline_s:.2f} s"
