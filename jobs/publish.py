"""Another committed version live, in one step: `python -m jobs.publish --config FILE VERSION`, or --rollback."""

import argparse
import logging
import sys
from pathlib import Path

from jobs.index_commands import publish_version, roll_back
from jobs.printing import out, print_failure
from rag.config import load_config
from rag.errors import InputError, RagError


def main() -> None:
    """Run `python -m jobs.publish`. Exit codes: 0, 1 when it failed, 2 for wrong arguments or configuration."""
    parser = argparse.ArgumentParser(prog="python -m jobs.publish", description="Make a version the live one.")
    parser.add_argument("--config", type=Path, required=True, help="rag.yaml")
    parser.add_argument("--rollback", action="store_true", help="the parent of the live version")
    parser.add_argument("version", nargs="?", help="as `quire versions` lists it")
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        if given.rollback == (given.version is not None):
            raise InputError("say which version, or --rollback")
        config = load_config(given.config)
        out.print(f"live: {roll_back(config) if given.rollback else publish_version(config, given.version)}")
    except RagError as error:
        sys.exit(print_failure(error))


if __name__ == "__main__":
    main()
