"""Where the files of an index are: in a folder, or on an object store with the folder as this machine's copy.

What changes is read and written at the one place that all machines share. What is immutable is also kept in the folder,
from where it is memory-mapped.
"""

import shutil
from pathlib import Path

from rag.index.files import write_atomically
from rag.index.remote import RemoteFiles


class Storage:
    """The files of one index, by their paths inside it."""

    def __init__(self, root: Path, remote: RemoteFiles | None = None) -> None:
        """Without `remote` the folder `root` is the index itself."""
        self.root = root
        self.remote = remote

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.root)!r}{f', {self.remote!r}' if self.remote else ''})"

    # ------------------------------------------------------------ files that change

    def read_live(self, name: str) -> bytes | None:
        """The content of a file that changes, as it is now; None where there is none."""
        if self.remote is not None:
            return self.remote.read(name)
        try:
            return (self.root / name).read_bytes()
        except FileNotFoundError:
            return None

    def write_live(self, name: str, content: bytes) -> None:
        """Replaces a file that changes, in one step."""
        if self.remote is not None:
            self.remote.write(name, content)
            return
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content)

    def live_names(self, folder: str) -> list[str]:
        """The names of the changing files in a folder, sorted."""
        if self.remote is not None:
            return self.remote.names(folder)
        return sorted(path.name for path in (self.root / folder).glob("[!.]*"))

    def delete_live(self, name: str) -> None:
        """Deletes a file that changes; nothing where it is not there."""
        if self.remote is not None:
            self.remote.delete(name)
        (self.root / name).unlink(missing_ok=True)

    # ------------------------------------------------------------ files that never change

    def write_immutable(self, path: Path, content: bytes) -> None:
        """Writes a file of the folder, here and on the object store."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content)
        if self.remote is not None:
            self.remote.write(self.name_of(path), content)

    def immutable(self, path: Path) -> Path:
        """The path, its file copied from the object store where this machine does not have it yet."""
        if self.remote is not None and not path.exists():
            content = self.remote.read(self.name_of(path))
            if content is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(path, content)
        return path

    def immutable_names(self, folder: str) -> list[str]:
        """The names of the files and folders in a folder, here and on the object store, sorted."""
        local = {path.name for path in (self.root / folder).glob("[!.]*")}
        return sorted(local | set(self.remote.names(folder) if self.remote else ()))

    def delete_immutable(self, path: Path) -> None:
        """Deletes a file or a folder with all that is in it, on the object store and then here."""
        if self.remote is not None:
            self.remote.delete(self.name_of(path))
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)

    def name_of(self, path: Path) -> str:
        """What a file of the folder is called on the object store."""
        return path.relative_to(self.root).as_posix()
