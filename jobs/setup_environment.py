"""`python -m jobs.setup_environment`: remove packages that keep CPU torch from working with transformers.

The package index's torchvision is built for CUDA torch. Next to CPU torch its import fails ("operator torchvision::nms
does not exist"), and transformers, which imports it when it is there, then can't import the language models. Nothing
here needs it, nor its companions.
"""

import importlib.util
import subprocess
import sys

PACKAGES = ("torchvision", "torchaudio", "torchcodec")


def torchvision_is_broken() -> bool:
    """Whether torchvision is installed and can't be imported; tried in a process of its own."""
    if importlib.util.find_spec("torchvision") is None:
        return False
    tried = subprocess.run([sys.executable, "-c", "import torchvision"], capture_output=True, check=False)
    return tried.returncode != 0


def remove_broken_packages() -> tuple[str, ...]:
    """Uninstall torchvision and its companions where torchvision can't be imported; the names of what went."""
    if not torchvision_is_broken():
        return ()
    installed = tuple(name for name in PACKAGES if importlib.util.find_spec(name) is not None)
    subprocess.run([sys.executable, "-m", "pip", "uninstall", "--yes", "--quiet", *installed], check=True)
    return installed


def main() -> int:
    removed = remove_broken_packages()
    sys.stdout.write(f"removed {', '.join(removed)}\n" if removed else "nothing to remove\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
