"""Credentials are resolved to principals, or refused with a reason."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import jwt
import pytest
import yaml

from cluster.identity import Authenticator
from rag.config import AuthConfig, JwtConfig
from rag.errors import ConfigError, Unauthenticated

SECRET = "a-test-secret-of-enough-length-for-hs256"


@pytest.fixture
def authenticator(tmp_path: Path) -> Authenticator:
    (tmp_path / "secret").write_text(SECRET)
    keys = [
        {"key": "key-of-the-engineer", "subject": "engineer", "tenant": "tarnfell", "groups": ["engineering"]},
        {"key": "key-of-the-operator", "subject": "operator", "tenant": "tarnfell", "groups": [], "operator": True},
    ]
    (tmp_path / "keys.yaml").write_text(yaml.safe_dump(keys))
    return Authenticator(AuthConfig(jwt=JwtConfig(key_file=tmp_path / "secret"), api_keys_file=tmp_path / "keys.yaml"))


def _token(key: str = SECRET, expires_in_s: float = 60, algorithm: str = "HS256", **changed: object) -> str:
    claims = {
        "sub": "someone",
        "aud": "quire",
        "exp": datetime.now(UTC) + timedelta(seconds=expires_in_s),
        "tenant": "tarnfell",
        "groups": ["engineering", "all-staff"],
        **changed,
    }
    return jwt.encode({name: value for name, value in claims.items() if value is not None}, key, algorithm)


def test_an_api_key_stands_for_its_principal(authenticator: Authenticator) -> None:
    principal = authenticator.principal("Bearer key-of-the-engineer")
    assert (principal.subject, principal.tenant) == ("engineer", "tarnfell")
    assert principal.groups == {"engineering"}
    assert not principal.operator
    assert authenticator.principal("bearer key-of-the-operator").operator


def test_a_token_gives_subject_tenant_and_groups(authenticator: Authenticator) -> None:
    principal = authenticator.principal(f"Bearer {_token()}")
    assert (principal.subject, principal.tenant) == ("someone", "tarnfell")
    assert principal.groups == {"engineering", "all-staff"}


def test_a_token_without_groups_is_an_empty_world_and_not_an_error(authenticator: Authenticator) -> None:
    assert authenticator.principal(f"Bearer {_token(groups=None)}").groups == frozenset()


def test_members_of_the_operator_group_are_operators(authenticator: Authenticator) -> None:
    assert authenticator.principal(f"Bearer {_token(groups=['quire-operators'])}").operator


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (lambda: None, "no credential"),
        (lambda: "", "no credential"),
        (lambda: "Basic dXNlcjpwYXNz", "no credential"),
        (lambda: "Bearer ", "no credential"),
        (lambda: "Bearer unknown", "unknown API key"),
        (lambda: f"Bearer {_token(expires_in_s=-1)}", "expired"),
        (lambda: f"Bearer {_token(aud='payroll')}", "another audience"),
        (lambda: f"Bearer {_token(key='another-secret-of-enough-length-here')}", "not valid"),
        (lambda: f"Bearer {_token(exp=None)}", "not valid"),
        (lambda: f"Bearer {_token(sub=None)}", "not valid"),
        (lambda: f"Bearer {_token(algorithm='HS512', key=SECRET * 2)}", "not valid"),
        (lambda: f"Bearer {jwt.encode({'sub': 'x', 'aud': 'quire', 'exp': 9e9}, '', 'none')}", "not valid"),
        (lambda: f"Bearer {_token(groups='engineering')}", "must be a list"),
        (lambda: f"Bearer {_token(tenant=7)}", "must be a string"),
    ],
)
def test_a_credential_that_proves_nothing_is_refused_with_its_reason(
    authenticator: Authenticator, header: Callable[[], str | None], reason: str
) -> None:
    with pytest.raises(Unauthenticated, match=reason):
        authenticator.principal(header())


def test_a_missing_key_file_names_the_command_that_writes_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="quire keys"):
        Authenticator(AuthConfig(api_keys_file=tmp_path / "none.yaml"))


def test_with_no_credentials_configured_nobody_is_let_in() -> None:
    with pytest.raises(Unauthenticated):
        Authenticator(AuthConfig()).principal(f"Bearer {_token()}")
