"""What a replica does with its memory once it has loaded all that it serves from."""

import gc

_ALLOCATIONS = 20_000  # that start a round, in the place of 700: a request makes some thousands, all of them at once


def freeze_loaded() -> None:
    """Takes the objects that there are out of the garbage collector's rounds, and has rounds come less often.

    A replica loads hundreds of thousands of objects and keeps them, and each request makes enough new ones for a round
    over all: half of a shard's time for a search went there.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_ALLOCATIONS)
