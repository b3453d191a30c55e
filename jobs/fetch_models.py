"""`python -m jobs.fetch_models`: bring the default models, or named ones, onto this machine."""

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from jobs.setup_environment import PACKAGES, torchvision_is_broken
from rag.errors import ModelError
from rag.models import MODELS, Fetched, fetch, verify

DEFAULT_FOLDER = Path("var/models")


def fetch_models(names: Sequence[str], models: Path, check: bool = False) -> list[Fetched]:
    """Fetch the models in order, one printed line each; `check` reads those already there against their checksums.

    Raises ModelError at the first that can't be fetched; the ones before it stay.
    """
    if torchvision_is_broken():
        raise ModelError(
            f"torchvision is installed and can't be imported, which keeps transformers from loading language models; "
            f"run `python -m jobs.setup_environment`, which uninstalls {', '.join(PACKAGES)}"
        )
    fetched = []
    for name in names:
        done = fetch(name, models, progress=_say)
        if check and done.already_there:
            verify(name, models)
        fetched.append(done)
        _say(_line(done))
    return fetched


def _line(done: Fetched) -> str:
    took = "already there" if done.already_there else f"{done.duration_s:.1f} s"
    return f"{done.name:<24} {done.size_bytes / 1e6:>8.1f} MB  {took}"


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m jobs.fetch_models", description=__doc__)
    parser.add_argument("--models", type=Path, default=DEFAULT_FOLDER, help="folder of the models (%(default)s)")
    parser.add_argument(
        "--model", action="append", metavar="NAME", help=f"a hub id, or one of {', '.join(MODELS)}; may be repeated"
    )
    parser.add_argument("--check", action="store_true", help="read models that are already there against checksums")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    try:
        fetch_models(options.model or list(MODELS), options.models, options.check)
    except ModelError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
