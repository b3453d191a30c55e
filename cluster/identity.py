"""From a credential to a principal: bearer tokens (JWT, RFC 7519) and API keys."""

import hashlib
import hmac
from pathlib import Path

import jwt
import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from rag.config import AuthConfig, JwtConfig
from rag.data import Principal
from rag.errors import ConfigError, Unauthenticated


class ApiKey(BaseModel):
    """One development key and the identity that it stands for."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    key: str
    subject: str
    tenant: str
    groups: frozenset[str]
    operator: bool = False


class Authenticator:
    """Resolves the `Authorization` header. Unknown, expired or misdirected credentials raise Unauthenticated."""

    def __init__(self, config: AuthConfig) -> None:
        self._jwt = config.jwt
        self._jwt_key = _read_key(config.jwt.key_file) if config.jwt else ""
        keys = _read_api_keys(config.api_keys_file) if config.api_keys_file else []
        self._principals = {
            _hash(key.key): Principal(key.subject, key.tenant, key.groups, key.operator) for key in keys
        }

    def principal(self, authorization: str | None) -> Principal:
        scheme, _, credential = (authorization or "").partition(" ")
        credential = credential.strip()
        if scheme.lower() != "bearer" or not credential:
            raise Unauthenticated("no credential: send `Authorization: Bearer <token or API key>`")
        offered = _hash(credential)
        for known, principal in self._principals.items():
            if hmac.compare_digest(known, offered):
                return principal
        if self._jwt is not None and credential.count(".") == 2:
            return self._from_token(credential, self._jwt)
        raise Unauthenticated("unknown API key")

    def _from_token(self, token: str, config: JwtConfig) -> Principal:
        try:
            claims = jwt.decode(
                token,
                self._jwt_key,
                algorithms=[config.algorithm],
                audience=config.audience,
                issuer=config.issuer,
                options={"require": ["exp", "aud", "sub"]},
            )
        except jwt.ExpiredSignatureError as error:
            raise Unauthenticated("the token has expired") from error
        except jwt.InvalidAudienceError as error:
            raise Unauthenticated(f"the token is for another audience; expected {config.audience!r}") from error
        except jwt.InvalidTokenError as error:
            raise Unauthenticated(f"the token is not valid: {error}") from error
        groups = claims.get(config.groups_claim, [])
        tenant = claims.get(config.tenant_claim, "")
        if not isinstance(groups, list) or not all(isinstance(group, str) for group in groups):
            raise Unauthenticated(f"claim {config.groups_claim!r} must be a list of group names")
        if not isinstance(tenant, str):
            raise Unauthenticated(f"claim {config.tenant_claim!r} must be a string")
        return Principal(str(claims["sub"]), tenant, frozenset(groups), config.operator_group in groups)


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def _read_key(path: Path) -> str:
    try:
        key = path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ConfigError(f"auth.jwt.key_file: {path} can't be read: {error.strerror}") from error
    if not key:
        raise ConfigError(f"auth.jwt.key_file: {path} is empty")
    return key


def _read_api_keys(path: Path) -> list[ApiKey]:
    try:
        listed = yaml.safe_load(path.read_text(encoding="utf-8")) or []
        return TypeAdapter(list[ApiKey]).validate_python(listed)
    except FileNotFoundError as error:
        raise ConfigError(f"auth.api_keys_file: {path} does not exist; `quire keys` writes one") from error
    except (OSError, yaml.YAMLError, ValidationError) as error:
        raise ConfigError(f"auth.api_keys_file: {path}: {error}") from error
