"""API keys for development: one random key a principal, in a file that only its owner reads."""

import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from rag.config import RagConfig
from rag.errors import ConfigError

KEY_BYTES = 24


class PrincipalEntry(BaseModel):
    """One person of a principals file."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str = Field(min_length=1)
    tenant: str
    groups: tuple[str, ...] = ()
    operator: bool = False


class KeyEntry(BaseModel):
    """One entry of the key file, as the gateway reads it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: str = Field(min_length=16)
    subject: str
    tenant: str
    groups: tuple[str, ...]
    operator: bool = False


class _PrincipalsFile(BaseModel):
    principals: tuple[PrincipalEntry, ...]


def keys_path(config: RagConfig) -> Path:
    """The key file that the configuration names, or the usual place under `var`."""
    return config.auth.api_keys_file or config.var / "api_keys.yaml"


def write_keys(principals_file: Path, keys_file: Path) -> list[KeyEntry]:
    """Give every principal in the file a key, and return the whole key file.

    Who has a key keeps it; tenant, groups and the operator mark follow the principals file. Entries of the key file
    whose subject is not a listed principal stay as they are.
    """
    principals = _load_principals(principals_file)
    existing = {entry.subject: entry for entry in load_keys(keys_file)} if keys_file.exists() else {}
    for principal in principals:
        old = existing.get(principal.name)
        existing[principal.name] = KeyEntry(
            key=old.key if old else secrets.token_urlsafe(KEY_BYTES),
            subject=principal.name,
            tenant=principal.tenant,
            groups=tuple(sorted(set(principal.groups))),
            operator=principal.operator,
        )
    entries = sorted(existing.values(), key=lambda entry: entry.subject)
    _write_private(keys_file, yaml.safe_dump([entry.model_dump(mode="json") for entry in entries], sort_keys=False))
    return entries


def load_keys(keys_file: Path) -> list[KeyEntry]:
    """The entries of a key file. Raises ConfigError."""
    try:
        return TypeAdapter(list[KeyEntry]).validate_python(_read_yaml(keys_file) or [])
    except ValidationError as error:
        raise ConfigError(f"{keys_file}: {error.error_count()} wrong entries; {_first(error)}") from error


def token_for(name_or_token: str, keys_file: Path) -> str:
    """The key of the principal with that name; anything that is no such name is taken for a token."""
    if not keys_file.exists():
        return name_or_token
    keys = {entry.subject: entry.key for entry in load_keys(keys_file)}
    return keys.get(name_or_token, name_or_token)


def _load_principals(path: Path) -> Sequence[PrincipalEntry]:
    try:
        return _PrincipalsFile.model_validate(_read_yaml(path)).principals
    except ValidationError as error:
        raise ConfigError(f"{path}: {_first(error)}; expected principals: [{{name, tenant, groups}}]") from error


def _read_yaml(path: Path) -> Any:  # Any: whatever the YAML holds, until pydantic has checked it
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: no such file") from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: not readable as YAML: {error}") from error


def _first(error: ValidationError) -> str:
    problem = error.errors(include_input=False)[0]  # an input may be a key, and this text is printed
    return f"{'.'.join(str(part) for part in problem['loc'])}: {problem['msg']}"


def _write_private(path: Path, text: str) -> None:
    """Write the file so that no other user can read it at any moment."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    temporary.replace(path)
