"""The files of an index on an object store, over any fsspec filesystem: s3://, gs://, memory://, file://.

An object appears whole or not at all, and replacing one is atomic; that is all that versions need. What is immutable is
copied to the folder of the index on this machine once, checked there, and memory-mapped from there.
"""

import os
from pathlib import Path
from typing import Any

import fsspec
from fsspec.utils import get_protocol

from rag.config import RemoteConfig
from rag.errors import ConfigError, RagError
from rag.index.files import temporary_sibling, write_atomically


class RemoteFiles:
    """The objects below one URL, named by their path inside the index. RagError says that they can't be reached."""

    def __init__(self, url: str, options: dict[str, Any] | None = None) -> None:  # Any: of the filesystem in question
        """Raises ConfigError for a protocol that is unknown or not installed."""
        self._url, self._local = url, get_protocol(url) in ("file", "local")
        try:
            # Listings that are cached would hide what another machine published.
            self._files, self._root = fsspec.core.url_to_fs(url, use_listings_cache=False, **(options or {}))
        except (ImportError, ValueError, TypeError) as error:
            raise ConfigError(f"remote.url: {url}: {error}") from error

    def __repr__(self) -> str:
        return f"RemoteFiles({self._url!r})"

    def read(self, name: str) -> bytes | None:
        """The object's content; None where there is none."""
        try:
            content: bytes = self._files.cat_file(self._path(name))
            return content
        except FileNotFoundError:
            return None
        except Exception as error:  # each filesystem has errors of its own
            raise self._failure(name, error) from error

    def write(self, name: str, content: bytes) -> None:
        """Puts the object in place in one step: a reader gets all of it or what was there before."""
        try:
            if self._local:
                path = Path(self._path(name))
                path.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(path, content)
            else:
                self._files.pipe_file(self._path(name), content)
        except Exception as error:
            raise self._failure(name, error) from error

    def upload(self, name: str, path: Path) -> None:
        """Puts a file's content in place; streamed, so it may be larger than memory."""
        try:
            if self._local:
                Path(self._path(name)).parent.mkdir(parents=True, exist_ok=True)
            self._files.put_file(str(path), self._path(name))
        except Exception as error:
            raise self._failure(name, error) from error

    def download(self, name: str, path: Path) -> None:
        """Copies the object to the path, where it appears whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = temporary_sibling(path)
        try:
            self._files.get_file(self._path(name), str(temporary))
            os.replace(temporary, path)
        except Exception as error:
            raise self._failure(name, error) from error
        finally:
            temporary.unlink(missing_ok=True)

    def exists(self, name: str) -> bool:
        """Whether there is an object of the name."""
        try:
            return bool(self._files.exists(self._path(name)))
        except Exception as error:
            raise self._failure(name, error) from error

    def names(self, folder: str) -> list[str]:
        """The names of the objects and folders right below a folder, sorted; empty where it does not exist."""
        try:
            found = self._files.ls(self._path(folder), detail=False)
        except FileNotFoundError:
            return []
        except Exception as error:
            raise self._failure(folder, error) from error
        return sorted({str(path).rstrip("/").rpartition("/")[2] for path in found})

    def delete(self, name: str) -> None:
        """Deletes the object, or the folder with all that is in it; nothing where there is neither."""
        try:
            self._files.rm(self._path(name), recursive=True)
        except FileNotFoundError:
            return
        except Exception as error:
            raise self._failure(name, error) from error

    def _path(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}"

    def _failure(self, name: str, error: Exception) -> RagError:
        return RagError(f"{self._url}/{name}: {type(error).__name__}: {error}")


def open_remote(config: RemoteConfig, index_name: str) -> RemoteFiles | None:
    """The object store that holds the index; None where the folder on this machine is the index itself."""
    return RemoteFiles(f"{config.url.rstrip('/')}/{index_name}", dict(config.options)) if config.url else None
