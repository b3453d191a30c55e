"""Where things are: the names under which deployments find each other, and the folder that config paths start at."""

from pathlib import Path

ENGINE_APP = "engine"  # the application in serve.yaml that holds the language model
GENERATOR = "generator"  # its deployment

_PROJECT = Path(__file__).resolve().parents[1]


def place_path(path: Path) -> Path:
    """The path of a file that serve.yaml names: replicas start in folders of their own."""
    return path if path.is_absolute() else _PROJECT / path
