from pathlib import Path

import pytest
import yaml

from jobs.api_keys import keys_path, load_keys, token_for, write_keys
from rag.config import RagConfig
from rag.errors import ConfigError

PRINCIPALS = """
principals:
  - {name: ada, tenant: acme, groups: [staff, engineering]}
  - {name: ops, tenant: acme, groups: [], operator: true}
"""


@pytest.fixture
def principals(tmp_path: Path) -> Path:
    path = tmp_path / "principals.yaml"
    path.write_text(PRINCIPALS)
    return path


def test_every_principal_gets_a_key_with_its_groups(tmp_path: Path, principals: Path) -> None:
    file = tmp_path / "var" / "keys.yaml"
    write_keys(principals, file)
    entries = {entry["subject"]: entry for entry in yaml.safe_load(file.read_text())}
    assert entries["ada"]["groups"] == ["engineering", "staff"]
    assert entries["ada"]["tenant"] == "acme"
    assert entries["ops"]["operator"] is True
    assert len({entry["key"] for entry in entries.values()}) == 2
    assert min(len(entry["key"]) for entry in entries.values()) >= 32


def test_only_the_owner_can_read_the_keys(tmp_path: Path, principals: Path) -> None:
    write_keys(principals, tmp_path / "keys.yaml")
    assert (tmp_path / "keys.yaml").stat().st_mode & 0o777 == 0o600


def test_a_second_run_keeps_the_keys_and_follows_the_groups(tmp_path: Path, principals: Path) -> None:
    file = tmp_path / "keys.yaml"
    first = {entry.subject: entry for entry in write_keys(principals, file)}
    before = file.read_bytes()
    write_keys(principals, file)
    assert file.read_bytes() == before
    principals.write_text("principals: [{name: ada, tenant: acme, groups: [finance]}]")
    second = {entry.subject: entry for entry in write_keys(principals, file)}
    assert second["ada"].key == first["ada"].key
    assert second["ada"].groups == ("finance",)
    assert second["ops"] == first["ops"]


def test_a_name_becomes_its_key_and_a_token_stays_itself(tmp_path: Path, principals: Path) -> None:
    file = tmp_path / "keys.yaml"
    assert token_for("ada", file) == "ada"
    keys = {entry.subject: entry.key for entry in write_keys(principals, file)}
    assert token_for("ada", file) == keys["ada"]
    assert token_for("a.signed.token", file) == "a.signed.token"


def test_a_wrong_principals_file_says_where(tmp_path: Path, principals: Path) -> None:
    principals.write_text("principals: [{name: ada}]")
    with pytest.raises(ConfigError, match=r"principals\.yaml: principals\.0\.tenant"):
        write_keys(principals, tmp_path / "keys.yaml")
    with pytest.raises(ConfigError, match="no such file"):
        write_keys(tmp_path / "missing.yaml", tmp_path / "keys.yaml")


def test_an_error_in_the_key_file_does_not_show_a_key(tmp_path: Path) -> None:
    file = tmp_path / "keys.yaml"
    file.write_text("- {key: a-secret-key-of-someone, subject: ada, tenant: acme, groups: [], admin: true}")
    with pytest.raises(ConfigError) as caught:
        load_keys(file)
    assert "admin" in str(caught.value)
    assert "a-secret-key" not in str(caught.value)


def test_the_configuration_names_the_key_file(tmp_path: Path) -> None:
    folders = {"store": tmp_path, "var": tmp_path / "var", "models": tmp_path}
    assert keys_path(RagConfig.model_validate(folders)) == tmp_path / "var" / "api_keys.yaml"
    named = RagConfig.model_validate({**folders, "auth": {"api_keys_file": tmp_path / "k.yaml"}})
    assert keys_path(named) == tmp_path / "k.yaml"
