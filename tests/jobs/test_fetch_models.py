import sys
from pathlib import Path

import pytest

from jobs import fetch_models as job
from jobs import setup_environment
from jobs.fetch_models import main
from tests.tiny_models import tiny_encoder


@pytest.fixture(autouse=True)
def torchvision_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "torchvision_is_broken", lambda: False)


def test_a_model_gets_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = tiny_encoder(tmp_path / "encoder")
    assert main(["--models", str(tmp_path / "models"), "--model", str(directory)]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 1
    assert printed[0].startswith(str(directory))
    assert printed[0].endswith("already there")


def test_a_failure_is_one_clear_line_and_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--models", str(tmp_path), "--model", "no-such-model"]) == 1
    assert capsys.readouterr().err.startswith("model no-such-model: neither a hub id")


def test_a_torchvision_that_cannot_be_imported_stops_the_job_before_anything_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(job, "torchvision_is_broken", lambda: True)
    assert main(["--models", str(tmp_path / "models")]) == 1
    assert "python -m jobs.setup_environment" in capsys.readouterr().err
    assert not (tmp_path / "models").exists()


@pytest.mark.parametrize(
    ("content", "broken"), [("raise RuntimeError('operator torchvision::nms does not exist')", True), ("", False)]
)
def test_torchvision_is_tried_in_a_process_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, broken: bool
) -> None:
    (tmp_path / "torchvision.py").write_text(content)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert setup_environment.torchvision_is_broken() is broken
    assert "torchvision" not in sys.modules


def test_a_working_torchvision_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup_environment, "torchvision_is_broken", lambda: False)
    assert setup_environment.remove_broken_packages() == ()
