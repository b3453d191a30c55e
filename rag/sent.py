"""How objects that go between processes by the hundred are pickled."""


class Sent:
    """A frozen dataclass with slots that is pickled as a call of its class, which takes half the time: left to itself,
    it looks up its fields for each object."""

    __slots__: tuple[str, ...] = ()

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), tuple([getattr(self, name) for name in self.__slots__])
