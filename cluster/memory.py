"""What a replica does with its memory once it has loaded all that it serves from."""

import gc


def freeze_loaded() -> None:
    """Takes the objects that there are out of the garbage collector's rounds.

    A replica loads hundreds of thousands of objects and keeps them, and each request makes enough new ones for a round
    over all: half of a shard's time for a search went there.
    """
    gc.collect()
    gc.freeze()
