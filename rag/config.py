"""Configuration: one frozen object, read once at an entry point from `serve_configs/<place>/rag.yaml`.

`rag.yaml` says what the system means; how many copies of a stage run, and where, is in `serve.yaml` beside it. Relative
paths are resolved against the folder of the file. Unknown keys are errors.
"""

import json
import math
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, ValidationError, ValidationInfo

from rag.data import Authority
from rag.errors import ConfigError
from rag.ids import digest


class Section(BaseModel):
    """A part of the configuration: frozen, and a misspelt key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def _resolve(path: Path, info: ValidationInfo) -> Path:
    base = (info.context or {}).get("base")
    return path if base is None or path.is_absolute() else (base / path).resolve()


Engine = Literal["auto", "torch", "int8"]
ConfigPath = Annotated[Path, AfterValidator(_resolve)]


class AccessRule(Section):
    """Who may read the sources whose uri matches a pattern, and what else is known of them."""

    pattern: str = Field(
        description="Glob over the source's uri; ** crosses folders. The first rule that matches wins."
    )
    tenant: str | None = Field(None, description="Tenant of the documents; the default tenant when left out.")
    groups: tuple[str, ...] = Field(description="Groups that may read; empty: nobody.")
    owner: str = Field("", description="Team that answers for the documents, where they do not say.")
    authority: Authority = Field("reference", description="How binding the documents are, where they do not say.")


class RowTemplate(Section):
    """How a row becomes a document: texts with {column} in them. What is left out is taken from the row itself."""

    id: str = Field("", description="What names the row, as '{ticket}'; empty: its column id.")
    title: str = Field("", description="Title, as '{product}: {subject}'; empty: its column title.")
    text: str = Field("", description="Markdown, as '{question} {answer}'; empty: text, body, content, or all columns.")
    groups: tuple[str, ...] = Field(
        (), description="Groups that may read it, as 'team-{team}', or the name of a list column; empty: the rule's."
    )


class ExportConfig(RowTemplate):
    """Files whose rows are documents: JSONL files always are, CSV, TSV and Parquet files where one of these matches."""

    pattern: str = Field(description="Glob over the file's uri. The first export that matches wins.")


class DatabaseConfig(RowTemplate):
    """A query whose rows are documents: `quire ingest sql:NAME`. Their uris are sql:NAME#ID."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]*$", description="Name by which it is asked for.")
    url: str = Field(description="SQLAlchemy URL; its driver has to be installed.")
    query: str = Field(description="SELECT with a row for each document.")


class SourcesConfig(Section):
    """What is read, and who may read it."""

    rules: tuple[AccessRule, ...] = Field((), description="Access rules in order.")
    rules_file: ConfigPath | None = Field(None, description="A YAML file with `rules:`, read after the ones above.")
    default_tenant: str = Field("default", description="Tenant where no rule gives one.")
    default_groups: tuple[str, ...] = Field((), description="Readers where no rule matches; empty: nobody.")
    trust_document_groups: bool = Field(
        False, description="Let `groups` in front matter or in an export's row replace the rule's groups."
    )
    exports: tuple[ExportConfig, ...] = Field((), description="Files whose rows are documents.")
    databases: tuple[DatabaseConfig, ...] = Field((), description="Queries whose rows are documents.")
    max_document_bytes: int = Field(
        50_000_000, ge=1, description="Larger objects go to the errors table instead of into memory."
    )


class ParseConfig(Section):
    """How bytes become blocks."""

    parser_version: int = Field(3, description="Raised when parsing changes, so that documents are parsed again.")
    max_pages: int = Field(2_000, ge=1, description="A PDF with more pages goes to the errors table.")
    min_page_characters: int = Field(
        16, ge=0, description="A PDF whose pages all hold fewer characters than this counts as scanned."
    )
    passwords: dict[str, SecretStr] | tuple[SecretStr, ...] = Field(
        (), description="Of encrypted PDFs: by glob over the uri, or a list of which each is tried on every one."
    )
    detector: str = Field(
        "none",
        pattern=r"^(none|pymupdf|picodet|transformers|[\w.]+:\w+)$",
        description="Finds the layout of complicated PDF pages: none reads them by rules; pymupdf, picodet, "
        "transformers, or a class of your own as package.module:Class.",
    )
    detector_model: str = Field(
        "", description="Weights of the detector: a directory or hub id for transformers, a file for picodet."
    )
    detector_pages: Literal["complicated", "all"] = Field(
        "complicated", description="Which pages go to the detector: those with columns or figures, or every one."
    )
    ocr: Literal["rapidocr", "tesseract", "none"] = Field(
        "rapidocr", description="Reads scans and pictures: PP-OCRv6 by RapidOCR, the program tesseract, or nothing."
    )
    ocr_dpi: int = Field(
        200, ge=72, le=600, description="Dots per inch at which a page is drawn for OCR; time grows with it."
    )
    ocr_languages: tuple[str, ...] = Field(
        ("eng",), min_length=1, description="Languages of tesseract, by its names; RapidOCR reads all that it knows."
    )
    ocr_threads: int = Field(1, ge=1, description="CPU threads of one RapidOCR; each process that parses has its own.")
    max_figures: int = Field(
        20, ge=0, description="Different pictures inside a document that are read by OCR; others keep their caption."
    )
    max_unpacked_mb: int = Field(500, ge=1, description="An Office file that unpacks to more goes to the errors table.")
    isolation: Literal["process", "none"] = Field(
        "process", description="process: PDFs, pictures and Office files are parsed in a process of their own."
    )
    max_seconds: float = Field(
        120.0, gt=0, description="Processor time of a document beside that of its pages; more: the errors table."
    )
    max_page_seconds: float = Field(
        30.0, ge=0, description="Processor time that each page of a PDF adds. By the clock both may be 4 x as long."
    )
    max_memory_mb: int = Field(
        3_000,
        ge=512,
        description="A page that takes more memory to parse is lost; any other document: the errors table.",
    )
    pages_per_slice: int = Field(
        16,
        ge=1,
        description="A PDF of more pages is parsed in slices of so many; where a process fails, the next one goes on. "
        "The pages of a slice share their time; those of one that failed are taken one by one.",
    )
    max_lost_pages: int = Field(
        10,
        ge=0,
        description="A page that is damaged, crashes its process or takes too much time or memory is lost, and the "
        "others are indexed; a PDF that loses more pages than this goes to the errors table.",
    )
    documents_per_worker: int = Field(
        200, ge=1, description="A parsing process ends after so many documents, and with it what libraries leak."
    )


PiiKind = Literal["email", "phone", "card", "iban", "national_id", "secret"]
PiiPolicy = Literal["off", "flag", "mask", "narrow"]


class CleanConfig(Section):
    """What is taken out of documents, and which of them say the same."""

    clean_version: int = Field(2, description="Raised when cleaning changes, so that documents are cleaned again.")
    duplicates: Literal["off", "exact", "near"] = Field(
        "near", description="Of documents with the same readers and text one is indexed; near: of like ones as well."
    )
    min_similarity: float = Field(
        0.9, gt=0.5, le=1.0, description="near: documents that share this much of their wording (Jaccard) are alike."
    )
    max_repeated_share: float = Field(
        0.5, gt=0.0, le=1.0, description="A short block on more than this share of a document's pages is left out."
    )
    pii: PiiPolicy = Field(
        "flag",
        description="Personal data and secrets: off does not look; flag marks the chunk `pii:KIND`; mask writes [KIND] "
        "in their place; narrow also restricts the document to narrow_groups.",
    )
    pii_kinds: dict[PiiKind, PiiPolicy] = Field({}, description="Policies of single kinds, in place of `pii`.")
    narrow_groups: tuple[str, ...] = Field(
        (), description="narrow: those of a document's readers that keep it; where none is among them, nobody does."
    )
    phone_region: str = Field(
        "", pattern=r"^([A-Z]{2})?$", description="Country of numbers without +, as US; empty: those do not count."
    )

    def policy(self, kind: PiiKind) -> PiiPolicy:
        return self.pii_kinds.get(kind, self.pii)


class ChunkConfig(Section):
    """How blocks become chunks. Token counts are the encoder's own."""

    chunker_version: int = Field(2, description="Raised when chunking changes, so that documents are chunked again.")
    chunker: Literal["structural", "window", "sentence", "semantic", "hierarchical"] = Field(
        "structural", description="Name in rag/parts.py."
    )
    max_tokens: int = Field(
        256, ge=32, description="Most tokens of a chunk's embedded text; larger chunks blur what a vector means."
    )
    min_tokens: int = Field(48, ge=0, description="Smaller neighbours in one section are merged up to this size.")
    overlap_sentences: int = Field(1, ge=0, description="Sentences repeated when a long paragraph has to be cut.")
    overlap_tokens: int = Field(32, ge=0, description="window: most tokens that a window repeats of the one before.")
    semantic_drop: float = Field(
        1.0,
        description="semantic: cut where the similarity of neighbouring sentences is so many standard deviations below "
        "the section's mean; a larger number cuts less.",
    )
    child_tokens: int = Field(96, ge=32, description="hierarchical: most tokens of a child, which is searched.")
    parent_tokens: int = Field(384, ge=32, description="hierarchical: most tokens of a parent, which is prompted.")


class EmbedConfig(Section):
    """Which encoder, and how it runs."""

    embedder: Literal["sentence", "hashing"] = Field("sentence", description="Name in rag/parts.py.")
    model: str = Field("all-MiniLM-L6-v2", description="Registry name, hub id or local directory.")
    query_prefix: str = Field("", description="Put before every query; e5 wants 'query: '.")
    passage_prefix: str = Field("", description="Put before every passage; e5 wants 'passage: '.")
    max_tokens: int = Field(256, ge=16, description="Window of the encoder; longer texts are cut, and counted.")
    batch_tokens: int = Field(4_096, ge=256, description="Padded tokens of one forward pass; memory grows with it.")
    num_threads: int = Field(0, ge=0, description="CPU threads of an encoding job; 0 takes every core.")
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="auto takes a GPU when there is one.")
    engine: Engine = Field("auto", description="int8 runs a BERT in 8 bits, on a CPU; auto does where it can.")


DenseKind: TypeAlias = Literal["flat", "ivf_flat", "ivf_pq", "hnsw"]


class DenseIndexConfig(Section):
    """The vector index of a segment. Every kind gives exact scores, and flat gives exactly the best rows."""

    kind: DenseKind = Field(
        "flat", description="flat is exact; ivf_flat visits clusters, ivf_pq compressed ones, hnsw walks a graph."
    )
    min_rows: int = Field(10_000, ge=256, description="Segments with fewer rows are flat whatever the kind.")
    target_recall: float = Field(
        0.995, ge=0.5, lt=1.0, description="recall@10 on a sample that a build sets the breadth of the search by."
    )
    nlist: int | None = Field(
        None, ge=1, description="IVF clusters of a segment; left out: the power of two nearest to 2.8 x root of rows."
    )
    nprobe: int = Field(
        16, ge=1, description="Clusters visited at once; more are visited while they may hold a better row."
    )
    pq_bytes: int = Field(96, ge=1, description="Bytes of a vector's product code; more cost memory and give recall.")
    rescore: int = Field(4, ge=1, description="Rows whose exact score an ivf_pq takes, in multiples of k.")
    m: int = Field(32, ge=4, le=128, description="Neighbours of a node in HNSW, twice as many at the bottom.")
    ef_construction: int = Field(
        200, ge=8, description="Rows looked at to place one in HNSW; build time grows with it."
    )
    ef_search: int = Field(64, ge=8, description="Rows looked at by a search of HNSW, at least; see target_recall.")
    resident: bool = Field(
        True, description="Copy a flat segment's vectors into memory, where large pages save a third of a scan; or map."
    )
    device: Literal["auto", "cpu", "gpu"] = Field(
        "auto", description="auto takes a GPU when faiss has one that honours masks; gpu refuses to do without."
    )

    def lists_for(self, num_rows: int) -> int:
        """Clusters of a segment with so many rows; a cluster has at least four."""
        nlist = self.nlist or 1 << max(0, round(math.log2(2.8 * math.sqrt(num_rows))))
        return max(1, min(nlist, num_rows // 4))

    def shaping(self) -> dict[str, Any]:  # Any: a configuration as JSON
        """The settings that the files of a segment depend on, for its kind."""
        fields = {
            "flat": (),
            "ivf_flat": ("min_rows", "target_recall", "nlist"),
            "ivf_pq": ("min_rows", "target_recall", "nlist", "pq_bytes"),
            "hnsw": ("min_rows", "target_recall", "m", "ef_construction"),
        }[self.kind]
        return {"kind": self.kind, **{name: getattr(self, name) for name in fields}}


class LexicalIndexConfig(Section):
    """BM25 (Lucene's variant). Source of the defaults: bench/results/quality.json."""

    k1: float = Field(1.5, ge=0.0, description="How slowly repeated terms stop counting; 0: presence only.")
    b: float = Field(0.75, ge=0.0, le=1.0, description="How much longer chunks are penalised; 0: not at all.")
    stemmer: Literal["english", "none"] = Field("english", description="Snowball stemmer of plain words.")
    stop_words: Literal["english", "none"] = Field("english", description="Words that are not indexed.")


class IndexConfig(Section):
    """What an index version is made of."""

    num_shards: int = Field(2, ge=1, description="Disjoint parts of the corpus; a document lives in one.")
    dense: DenseIndexConfig = DenseIndexConfig()
    lexical: LexicalIndexConfig = LexicalIndexConfig()
    vector_dtype: Literal["float16", "float32"] = Field("float32", description="On disk; float16 halves it.")
    max_error_share: float = Field(
        0.2, ge=0.0, le=1.0, description="A run with a larger share of failed documents publishes nothing."
    )
    keep_versions: int = Field(
        3, ge=1, description="Newest versions that are kept; older ones are deleted once nobody uses them."
    )
    reclaim_grace_s: float = Field(
        600.0, ge=0.0, description="A version or segment that was made or used this lately is never deleted."
    )
    segment_chunks: int = Field(
        50_000, ge=1, description="Most chunks of a segment; fewer take less memory to build, more search faster."
    )


class RewriteConfig(Section):
    """How a question becomes a query."""

    glossary: dict[str, str] = Field({}, description="Acronym -> what it stands for; added beside the acronym.")
    glossary_file: ConfigPath | None = Field(None, description="A YAML mapping, read beside the one above.")
    follow_ups: bool = Field(True, description="Make a question with history stand-alone with the generator.")
    max_history_turns: int = Field(6, ge=0, description="Latest turns that the rewriter and the prompt see.")


class PlanConfig(Section):
    """When the allowed rows are scored one by one instead of being looked up in the ANN structure."""

    exact_rows: int = Field(2_000, ge=0, description="Up to so many allowed rows of a segment: scored one by one.")
    exact_share: float = Field(
        0.03, ge=0.0, le=1.0, description="Up to this share of a segment's rows too; recall and time grow with it."
    )
    exact_share_hnsw: float = Field(
        0.25,
        ge=0.0,
        le=1.0,
        description="The same beside an HNSW graph, which is walked through forbidden rows too.",
    )


DEFAULT_PLAN = PlanConfig()


class SearchConfig(Section):
    """How wide the first stage looks."""

    plan: PlanConfig = DEFAULT_PLAN
    mask_cache_mb: int = Field(
        128, ge=1, description="Memory of a shard for the rows that each set of permissions lately opened."
    )
    k_dense: int = Field(50, ge=1, description="Candidates of the dense leg.")
    k_bm25: int = Field(50, ge=1, description="Candidates of the BM25 leg.")
    rank_constant: int = Field(60, ge=0, description="k of reciprocal rank fusion; larger flattens the top ranks.")
    k_each_leg: int = Field(
        3, ge=0, description="Best candidates of either leg that are reranked whatever their fused rank."
    )


class RerankConfig(Section):
    """How fused candidates are put in order. Scores are standardised over one query's candidates before they add up."""

    reranker: Literal["late_interaction", "cross_encoder", "overlap"] = Field(
        "late_interaction", description="Name in rag/parts.py."
    )
    model: str = Field("all-MiniLM-L6-v2", description="Registry name, hub id or local directory.")
    k_rerank: int = Field(50, ge=1, description="Fused candidates that are scored; time grows with it.")
    k_passages: int = Field(6, ge=1, description="Passages that are kept.")
    dense_weight: float = Field(1.0, ge=0.0, description="Weight of the dense score.")
    bm25_weight: float = Field(0.8, ge=0.0, description="Weight of the BM25 score.")
    model_weight: float = Field(1.2, ge=0.0, description="Weight of the reranker's own score.")
    feedback_weight: float = Field(
        1.2, ge=0.0, description="Weight of the likeness to the candidates that the scores above put first."
    )
    identifier_weight: float = Field(
        3.0, ge=0.0, description="Added for holding all of the question's identifiers; in standard deviations."
    )
    max_tokens: int = Field(
        256, ge=32, description="Window of a passage, or of a pair for a cross-encoder, whose question is never cut."
    )
    batch_tokens: int = Field(4_096, ge=256, description="Padded tokens of one forward pass.")
    cache_mb: int = Field(
        256, ge=0, description="Memory for passages that late interaction has read lately; about 0.2 MB each."
    )
    num_threads: int = Field(0, ge=0, description="CPU threads; 0 takes every core.")
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="auto takes a GPU when there is one.")
    engine: Engine = Field("auto", description="int8 runs a BERT in 8 bits, on a CPU; auto does where it can.")


class AssembleConfig(Section):
    """What the generator gets to read."""

    budget_tokens: int = Field(1_000, ge=64, description="Tokens of all passages together, by the generator.")
    neighbours: int = Field(1, ge=0, description="Chunks of the same section stitched to a passage on each side.")
    max_similarity: float = Field(
        0.85, gt=0.0, le=1.0, description="A passage whose words overlap more (Jaccard) with a better one is dropped."
    )


class GenerateConfig(Section):
    """How the answer is written."""

    generator: Literal["language_model", "extractive"] = Field("language_model", description="Name in rag/parts.py.")
    model: str = Field("quire-generator", description="Registry name, hub id or local directory.")
    max_output_tokens: int = Field(160, ge=1, description="Longest answer.")
    temperature: float = Field(0.2, ge=0.0, le=2.0, description="0 is greedy.")
    top_p: float = Field(0.9, gt=0.0, le=1.0, description="Share of probability that is sampled from.")
    max_model_tokens: int = Field(4_096, ge=256, description="Window of the model: prompt and answer together.")
    repetition_penalty: float = Field(1.0, ge=1.0, le=2.0, description="Above 1 a small model loops less.")
    min_attribution: float = Field(
        0.6,
        ge=0.0,
        le=1.0,
        description="Share of a sentence's content words that a passage must hold for quire to cite it itself.",
    )
    unsupported: Literal["drop", "keep"] = Field(
        "drop",
        description="What becomes of a sentence that no passage supports.",
    )
    nothing_supported: Literal["quote", "refuse"] = Field(
        "quote",
        description="When no sentence of the model's is left: quote the passages' own sentences, which helps a model "
        "that was never taught to quote, or say that no answer was found.",
    )
    lead_quotes: int = Field(
        4,
        ge=0,
        le=8,
        description="Most sentences, the reranker's best, that an answer begins with before the model goes on; a small "
        "model chooses worse than the reranker. 0: the model chooses.",
    )
    reader: str = Field(
        "",
        description="Model that looks for the answer's words in each passage, to choose the quotes and to tell whether "
        "there is an answer. Registry name or directory; empty: the reranker chooses alone.",
    )
    min_quote_similarity: float = Field(
        0.85,
        gt=0.0,
        le=1.0,
        description="Least share of equal characters between words that a model quotes and the closest stretch of a "
        "passage, which is shown in their place; a quote below is unsupported.",
    )
    min_support: float = Field(
        0.4,
        ge=0.0,
        le=1.0,
        description="Least probability that its passages entail a sentence of the model's own words; below it the "
        "sentence is unsupported.",
    )
    evidence_file: ConfigPath | None = Field(
        None,
        description="JSON of the calibrated P(answerable), for one encoder and reranker; python -m bench.abstention.",
    )
    min_answerable: float | None = Field(
        None,
        ge=0.0,
        le=1.0,
        description="Abstain below this P(answerable); left out: the threshold in `evidence_file`.",
    )
    min_evidence: float = Field(
        0.30, description="Without a calibration: abstain when no passage has a dense cosine this high."
    )


class LimitsConfig(Section):
    """What a request may cost."""

    max_question_characters: int = Field(2_000, ge=1, description="Longer questions are refused with 422.")
    max_body_bytes: int = Field(65_536, ge=1_024, description="Larger bodies are refused with 413.")
    max_k: int = Field(100, ge=1, description="Most results of one search.")
    search_s: float = Field(2.0, gt=0.0, description="Deadline of a shard; a later one is left out, visibly.")
    encode_s: float = Field(5.0, gt=0.0, description="Deadline of the query encoder.")
    rewrite_s: float = Field(4.0, gt=0.0, description="Deadline of the LLM in query rewriting; then rules alone.")
    rerank_s: float = Field(10.0, gt=0.0, description="Deadline of the reranker; then first-stage scores alone.")
    fetch_s: float = Field(2.0, gt=0.0, description="Deadline of reading passages.")
    first_token_s: float = Field(20.0, gt=0.0, description="Deadline of the first token.")
    answer_s: float = Field(90.0, gt=0.0, description="Deadline of a whole answer.")


class JwtConfig(Section):
    """How bearer tokens are checked (RFC 7519)."""

    algorithm: Literal["HS256", "RS256", "ES256"] = Field("HS256", description="The only algorithm accepted.")
    key_file: ConfigPath = Field(description="Shared secret, or the issuer's public key in PEM.")
    audience: str = Field("quire", description="Must be in the token's `aud`.")
    issuer: str | None = Field(None, description="Must be the token's `iss`, where set.")
    groups_claim: str = Field("groups", description="Claim with the caller's groups.")
    tenant_claim: str = Field("tenant", description="Claim with the caller's tenant.")
    operator_group: str = Field("quire-operators", description="Group whose members may read every trace.")


class AuthConfig(Section):
    """Who is let in. With neither kind of credential configured, nobody is."""

    jwt: JwtConfig | None = Field(None, description="Bearer tokens of an identity provider.")
    api_keys_file: ConfigPath | None = Field(
        None, description="YAML list of {key, subject, tenant, groups, operator}; for development."
    )


class SmokeConfig(Section):
    """The test that a new version has to pass before an ingest makes it live: golden questions, searched and fused.

    It loads the encoder and no other model. `quire publish` does without it.
    """

    golden_file: ConfigPath | None = Field(None, description="A golden.jsonl; left out: no test.")
    principals_file: ConfigPath | None = Field(
        None, description="Who asks; left out: principals.yaml beside the golden file."
    )
    k: int = Field(10, ge=1, description="Fused candidates among which the answer has to be.")
    min_recall: float = Field(0.8, ge=0.0, le=1.0, description="Least mean recall@k; below it nothing is published.")
    max_zero_result_share: float = Field(0.02, ge=0.0, le=1.0, description="Most questions that may find nothing.")
    max_questions: int = Field(50, ge=1, description="A seeded sample of so many is asked; time grows with it.")
    min_indexed_share: float = Field(
        0.9,
        ge=0.0,
        le=1.0,
        description="Least share of the questions whose documents the version holds; the others are not asked. 0 where "
        "other documents than those of the golden set may be indexed.",
    )


class TraceConfig(Section):
    """Where traces are kept."""

    url: str = Field("sqlite:///{var}/traces.db", description="SQLAlchemy URL; {var} is the folder `var`.")


class RemoteConfig(Section):
    """An object store that holds the index. The folder `store` is then this machine's copy of what it needs of it."""

    url: str = Field("", description="fsspec URL, as s3://bucket/prefix; empty: the index is the folder `store`.")
    options: dict[str, Any] = Field(  # Any: what they are depends on the filesystem
        {}, description="Arguments of the filesystem, as endpoint_url; credentials come from where it looks for them."
    )


# Of `index`: how much may fail, how long things are kept, how they are cut; the same documents are found.
_NOT_SHAPING = {"max_error_share", "keep_versions", "reclaim_grace_s", "segment_chunks"}


# Of `parse`: where and how long it may run; the same blocks come out.
_NOT_SHAPING_PARSE = {
    "passwords", "ocr_threads", "isolation", "max_seconds", "max_memory_mb", "pages_per_slice", "max_lost_pages",
    "documents_per_worker",
}  # fmt: skip


class RagConfig(Section):
    """The whole configuration."""

    store: ConfigPath = Field(description="Folder of the indexes.")
    var: ConfigPath = Field(description="Folder of what the service writes: traces, keys.")
    models: ConfigPath = Field(description="Folder of fetched models.")
    index_name: str = Field("main", pattern=r"^[a-z0-9][a-z0-9_-]*$", description="Folder inside the store.")
    remote: RemoteConfig = RemoteConfig()
    sources: SourcesConfig = SourcesConfig()
    parse: ParseConfig = ParseConfig()
    clean: CleanConfig = CleanConfig()
    chunk: ChunkConfig = ChunkConfig()
    embed: EmbedConfig = EmbedConfig()
    index: IndexConfig = IndexConfig()
    rewrite: RewriteConfig = RewriteConfig()
    search: SearchConfig = SearchConfig()
    rerank: RerankConfig = RerankConfig()
    assemble: AssembleConfig = AssembleConfig()
    generate: GenerateConfig = GenerateConfig()
    limits: LimitsConfig = LimitsConfig()
    auth: AuthConfig = AuthConfig()
    trace: TraceConfig = TraceConfig()
    smoke: SmokeConfig = SmokeConfig()

    @property
    def index_root(self) -> Path:
        return self.store / self.index_name

    def index_fingerprint(self) -> str:
        """A hash of exactly the settings that shape what is in an index.

        Left out: threads, batch sizes, devices and engines (vectors so near that they rank alike), limits, the smoke
        test, and who may read (access is data of each document, compared document by document).
        """
        shaping = {
            "parse": self.parse.model_dump(mode="json", exclude=_NOT_SHAPING_PARSE),
            "clean": self.clean.model_dump(mode="json"),
            "chunk": self.chunk.model_dump(mode="json"),
            "embed": self.embed.model_dump(mode="json", exclude={"batch_tokens", "num_threads", "device", "engine"}),
            "index": self.index.model_dump(mode="json", exclude=_NOT_SHAPING) | {"dense": self.index.dense.shaping()},
            "segment_format": 2,  # of the files in a segment
        }
        return digest(json.dumps(shaping, sort_keys=True))


def load_config(path: Path) -> RagConfig:
    """The configuration in the file, checked, with files that it names read in. Raises ConfigError."""
    settings = _read_yaml(path)
    try:
        config = RagConfig.model_validate(settings, context={"base": path.resolve().parent})
        return _with_named_files(config)
    except ValidationError as error:
        raise ConfigError("\n".join(f"{path}: {line}" for line in _problems(error))) from error


def _with_named_files(config: RagConfig) -> RagConfig:
    sources, rewrite = config.sources, config.rewrite
    if sources.rules_file is not None:
        listed = _read_yaml(sources.rules_file).get("rules", [])
        rules = tuple(AccessRule.model_validate(rule) for rule in listed)
        sources = sources.model_copy(update={"rules": sources.rules + rules})
    if rewrite.glossary_file is not None:
        extra = {str(key): str(value) for key, value in _read_yaml(rewrite.glossary_file).items()}
        rewrite = rewrite.model_copy(update={"glossary": {**extra, **rewrite.glossary}})
    return config.model_copy(update={"sources": sources, "rewrite": rewrite})


def _read_yaml(path: Path) -> dict[str, Any]:  # Any: whatever the YAML holds, until pydantic has checked it
    try:
        loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: no such file") from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: not readable as YAML: {error}") from error
    if not isinstance(loaded, dict):
        raise ConfigError(f"{path}: expected a mapping of settings, found {type(loaded).__name__}")
    return loaded


def _problems(error: ValidationError) -> list[str]:
    return [f"{'.'.join(str(part) for part in problem['loc'])}: {problem['msg']}" for problem in error.errors()]
