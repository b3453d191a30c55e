"""`quire`: one command over all of it. It reaches the service over HTTP and deploys by config file."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import typer

from jobs import api_keys, local_cluster, printing
from jobs.client import AnswerReply, Client
from rag.config import RagConfig, load_config
from rag.errors import InputError, RagError

LOCAL = Path("serve_configs/local")
GOLDEN = Path("bench/sample/golden.jsonl")
DEFAULT_URL = "http://127.0.0.1:8000"
MIN_SHARES = 8

app = typer.Typer(
    name="quire",
    help="Cited answers from company documents, inside the asker's permissions.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)

ConfigOption = Annotated[Path, typer.Option("--config", help="The rag.yaml that says what the system means.")]
ConfigDirOption = Annotated[Path, typer.Option("--config-dir", help="Folder with rag.yaml and serve.yaml.")]
UrlOption = Annotated[str, typer.Option("--url", envvar="QUIRE_URL", help="Where the service answers.")]
AsOption = Annotated[
    str, typer.Option("--as", envvar="QUIRE_TOKEN", help="A name from the key file, or a bearer token.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of tables.")]


def main() -> None:
    """Run `quire`; errors that quire raises on purpose end it with one message and an exit code.

    1: it was tried and failed; 2: it was asked for wrongly (arguments, configuration).
    """
    try:
        app()
    except RagError as error:
        sys.exit(printing.print_failure(error))
    except KeyboardInterrupt:
        printing.print_error("interrupted")
        sys.exit(130)


# ---------------------------------------------------------------- models and documents


@app.command()
def fetch(
    config: ConfigOption = LOCAL / "rag.yaml",
    model: Annotated[list[str] | None, typer.Option("--model", help="Only this model; may be repeated.")] = None,
) -> None:
    """Bring the models that the configuration names onto this machine, checked."""
    from jobs.fetch_models import fetch_models

    settings = load_config(config)
    named = {settings.embed.model, settings.rerank.model, settings.generate.model, settings.generate.reader}
    fetch_models(model or sorted(named - {""}), settings.models)


@app.command("parse")
def parse_command(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="The file to parse.")],
    config: ConfigOption = LOCAL / "rag.yaml",
    show: Annotated[
        Path | None, typer.Option("--show", help="Write each page of a PDF with its blocks drawn into this folder.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print what the parser makes of a file: Markdown, or blocks with their places as JSON."""
    from jobs.parse_command import parse_file

    raise typer.Exit(parse_file(load_config(config), path, show, as_json=as_json))


@app.command()
def ingest(
    paths: Annotated[
        list[Path], typer.Argument(help="Folders or files to index, or sql:NAME of a configured database.")
    ],
    config: ConfigOption = LOCAL / "rag.yaml",
    full: Annotated[bool, typer.Option("--full", help="Rebuild from nothing instead of updating.")] = False,
    submit: Annotated[bool, typer.Option("--submit", help="Run it as a Ray job on the cluster of `quire up`.")] = False,
    allow_failures: Annotated[
        bool, typer.Option("--allow-failures", help="Exit 0 although single documents failed.")
    ] = False,
    report: Annotated[
        Path | None, typer.Option("--report", metavar="PATH.html", help="Also write the report as an HTML page.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Index documents and publish the new version. Exit code 1 when any document failed."""
    settings = load_config(config)
    if submit:
        flags = ["--full"] * full + ["--json"] * as_json + ["--allow-failures"] * allow_failures
        flags += [f"--report={report.resolve()}"] if report else []
        raise typer.Exit(_submit_ingest(_running_cluster(settings), config, paths, flags))
    cluster = local_cluster.find_cluster(_record_file(settings))
    os.environ.update({"RAY_AUTH_MODE": "token"} if cluster else {})  # before Ray is imported, which reads it then
    from jobs.ingest import run

    address = cluster.address if cluster else None
    raise typer.Exit(
        run(
            config,
            paths,
            full=full,
            as_json=as_json,
            allow_failures=allow_failures,
            address=address,
            page=report,
        )
    )


def _submit_ingest(cluster: local_cluster.ClusterRecord, config: Path, paths: list[Path], flags: list[str]) -> int:
    from rag.read.rows import database_name

    # The job does not start in this folder.
    places = [str(path if database_name(path) is not None else path.resolve()) for path in paths]
    return _submit(cluster, ["jobs.ingest", "--config", str(config.resolve()), *flags, *places])


def _submit(cluster: local_cluster.ClusterRecord, entry: list[str]) -> int:
    """Run a module with its arguments as a Ray job; the job's exit code."""
    command = [local_cluster.ray_program("ray"), "job", "submit", "--address", cluster.dashboard, "--"]
    command += [sys.executable, "-m", *entry]
    return subprocess.run(command, env=local_cluster.ray_environment(), check=False).returncode


@app.command()
def synthesize(
    out: Annotated[Path, typer.Option("--out", help="JSONL file to write.")],
    config: ConfigOption = LOCAL / "rag.yaml",
    corpus: Annotated[
        Path | None, typer.Option("--corpus", help="Folder of a test collection, in place of the live index.")
    ] = None,
    source: Annotated[str, typer.Option("--source", help="rules, llm or both.")] = "rules",
    max_chunks: Annotated[int, typer.Option("--max-chunks", min=1, help="A seeded sample of the chunks.")] = 1_000,
    questions_per_chunk: Annotated[int, typer.Option("--questions-per-chunk", min=1, help="Of each source.")] = 3,
    k: Annotated[int, typer.Option("--k", min=1, help="A question must find its chunk among so many.")] = 5,
    seed: Annotated[int, typer.Option("--seed")] = 0,
    submit: Annotated[bool, typer.Option("--submit", help="Run it as a Ray job on the cluster of `quire up`.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Make questions that chunks of the live index answer, for training. Exit code 1 when none was kept."""
    from jobs.synthesize import arguments_of, check_source, run
    from rag.train.synthesize import SynthesisOptions

    options = SynthesisOptions(check_source(source), max_chunks, questions_per_chunk, k, seed=seed)
    if not submit:
        raise typer.Exit(run(config, out, options, corpus=corpus, as_json=as_json))
    entry = ["jobs.synthesize", *arguments_of(config, out, options, corpus, as_json=as_json)]
    raise typer.Exit(_submit(_running_cluster(load_config(config)), entry))


# ---------------------------------------------------------------- the cluster on this machine


@app.command()
def up(
    config_dir: ConfigDirOption = LOCAL,
    serve: Annotated[bool, typer.Option("--serve/--no-serve", help="Deploy the apps too, not Ray alone.")] = True,
    app_name: Annotated[
        str | None, typer.Option("--app", help="Deploy this app alone, and do not wait for it.")
    ] = None,
    num_cpus: Annotated[
        int | None, typer.Option(help="CPUs that Ray may hand out; left out: all, and no fewer than 8.")
    ] = None,
    timeout_s: Annotated[float, typer.Option(help="How long they may take to become healthy.")] = 300.0,
) -> None:
    """Start Ray on this machine and deploy the service; does nothing that is done already."""
    settings = load_config(config_dir / "rag.yaml")
    # Ray books CPUs as shares: on a laptop the stages of one question take turns, and a job runs beside the service.
    shares = num_cpus or max(MIN_SHARES, os.cpu_count() or 1)
    cluster = local_cluster.start_cluster(_record_file(settings), printing.say, shares)
    if not serve:
        printing.out.print(f"Ray runs; jobs and dashboard: {cluster.dashboard}")
        return
    serve_file = (config_dir / "serve.yaml").resolve()
    local_cluster.deploy(cluster, serve_file, printing.say, only=app_name)
    if app_name is not None:
        printing.out.print(f"{app_name} is on its way; `quire up` waits for it")
        return
    local_cluster.wait_until_healthy(cluster, serve_file, timeout_s, printing.say)
    printing.out.print(f"quire answers at {local_cluster.service_url(serve_file)}; `quire down` stops it")


@app.command()
def down(config_dir: ConfigDirOption = LOCAL) -> None:
    """Stop the service and the Ray cluster that `quire up` started, and nothing else."""
    settings = load_config(config_dir / "rag.yaml")
    stopped = local_cluster.stop_cluster(_record_file(settings), printing.say)
    printing.out.print("stopped" if stopped else "nothing to stop: no cluster of `quire up` runs")


@app.command()
def status(config_dir: ConfigDirOption = LOCAL, as_json: JsonOption = False) -> None:
    """Show the live version, and how the cluster and the service do. Exit code 1 when a deployed service is ill."""
    settings = load_config(config_dir / "rag.yaml")
    cluster = local_cluster.find_cluster(_record_file(settings))
    states = local_cluster.app_states(cluster, local_cluster.auth_token()) if cluster else {}
    url = local_cluster.service_url(config_dir / "serve.yaml")
    with Client(url, "") as client:
        healthy = client.healthy()
    from jobs.index_commands import live_summary, print_shards, shard_rows

    live = live_summary(settings)
    if as_json:
        deployments = {d.name: d.status for state in states.values() for d in state.deployments}
        service = {"url": url, "healthy": healthy, "deployments": deployments}
        index = {**live, "per_shard": shard_rows(settings)}
        printing.print_json({"cluster": cluster.address if cluster else None, "service": service, "index": index})
    else:
        printing.print_pairs("Index", live)
        print_shards(settings)
        ray = f"{cluster.address}, dashboard {cluster.dashboard}" if cluster else "not started by `quire up`"
        printing.print_pairs("Service", {"ray": ray, "url": url, "healthy": "yes" if healthy else "no"})
        rows = [(d.name, d.status, d.replicas, d.message) for state in states.values() for d in state.deployments]
        if rows:
            printing.print_rows("Deployments", ("deployment", "status", "replicas", "message"), rows)
    raise typer.Exit(1 if states and not healthy else 0)


@app.command()
def keys(
    principals: Annotated[Path, typer.Argument(help="YAML: principals: [{name, tenant, groups}].")],
    config: ConfigOption = LOCAL / "rag.yaml",
) -> None:
    """Write an API key for every principal; who has one keeps it."""
    keys_file = api_keys.keys_path(load_config(config))
    entries = api_keys.write_keys(principals, keys_file)
    printing.out.print(f"{len(entries)} keys in {keys_file}")


# ---------------------------------------------------------------- versions of the index


@app.command()
def versions(config: ConfigOption = LOCAL / "rag.yaml", as_json: JsonOption = False) -> None:
    """List the versions of the index; the live one is marked."""
    from jobs.index_commands import print_versions

    print_versions(load_config(config), as_json=as_json)


@app.command()
def publish(
    version: Annotated[str, typer.Argument(help="The version to serve.")], config: ConfigOption = LOCAL / "rag.yaml"
) -> None:
    """Make a version the live one."""
    from jobs.index_commands import publish_version

    printing.out.print(f"live: {publish_version(load_config(config), version)}")


@app.command()
def rollback(config: ConfigOption = LOCAL / "rag.yaml") -> None:
    """Make the parent of the live version the live one."""
    from jobs.index_commands import roll_back

    printing.out.print(f"live: {roll_back(load_config(config))}")


@app.command()
def revoke(
    name: Annotated[str, typer.Argument(metavar="[DOC|GROUP]", help="A document's uri or id, or a group.")] = "",
    undo: Annotated[bool, typer.Option("--undo", help="Take the revocation back.")] = False,
    document: Annotated[bool, typer.Option("--document", help="The name is a document's.")] = False,
    group: Annotated[bool, typer.Option("--group", help="The name is a group's.")] = False,
    tenant: Annotated[str | None, typer.Option("--tenant", help="Only in this tenant.")] = None,
    show: Annotated[bool, typer.Option("--list", help="Show what is revoked.")] = False,
    config: ConfigOption = LOCAL / "rag.yaml",
    as_json: JsonOption = False,
) -> None:
    """Take a document from every reader, or its effect from a group, at once and whatever the live version says."""
    from jobs.index_commands import print_revocations, revoke_named

    settings = load_config(config)
    if show:
        print_revocations(settings, as_json=as_json)
        return
    if not name:
        raise InputError("revoke what? name a document or a group, or --list")
    if document and group:
        raise InputError("a document or a group, not both")
    kind: Literal["document", "group"] | None = "document" if document else "group" if group else None
    found = revoke_named(settings, name, kind, tenant, undo=undo)
    if as_json:
        printing.print_json(found.model_dump(mode="json"))
        return
    printing.out.print(f"{'readable again' if undo else 'revoked'}: {found.kind} {found.label}", markup=False)


@app.command()
def reembed(
    encoder: Annotated[
        str | None, typer.Option("--encoder", help="Registry name, hub id or directory; left out: rag.yaml's.")
    ] = None,
    query_prefix: Annotated[str | None, typer.Option("--query-prefix", help="Put before every query.")] = None,
    passage_prefix: Annotated[str | None, typer.Option("--passage-prefix", help="Put before every passage.")] = None,
    max_tokens: Annotated[int | None, typer.Option("--max-tokens", help="Window of the encoder.")] = None,
    submit: Annotated[bool, typer.Option("--submit", help="Run it as a Ray job on the cluster of `quire up`.")] = False,
    config: ConfigOption = LOCAL / "rag.yaml",
    as_json: JsonOption = False,
) -> None:
    """Build the index by another encoder from its stored chunks. Exit code 1 when the new version is worse."""
    settings = load_config(config)
    if submit:
        entry = ["jobs.reembed", "--config", str(config.resolve()), *["--json"] * as_json]
        given = {"encoder": encoder, "query-prefix": query_prefix, "passage-prefix": passage_prefix}
        entry += [
            f"--{name}={value}" for name, value in {**given, "max-tokens": max_tokens}.items() if value is not None
        ]
        raise typer.Exit(_submit(_running_cluster(settings), entry))
    cluster = local_cluster.find_cluster(_record_file(settings))
    os.environ.update({"RAY_AUTH_MODE": "token"} if cluster else {})  # before Ray is imported, which reads it then
    from jobs.reembed import run, target_embed

    embed = target_embed(settings.embed, encoder, query_prefix, passage_prefix, max_tokens)
    raise typer.Exit(run(config, embed, as_json=as_json, address=cluster.address if cluster else None))


@app.command()
def compact(
    everything: Annotated[bool, typer.Option("--all", help="Leave no dead row.")] = False,
    config: ConfigOption = LOCAL / "rag.yaml",
    as_json: JsonOption = False,
) -> None:
    """Merge small segments and drop dead rows; no ranking changes."""
    from jobs.compact import run

    raise typer.Exit(run(config, everything=everything, as_json=as_json))


@app.command()
def reconcile(
    paths: Annotated[list[Path] | None, typer.Argument(help="The sources; left out: those that are indexed.")] = None,
    repair: Annotated[bool, typer.Option("--repair", help="Take missed deletions out of the index.")] = False,
    config: ConfigOption = LOCAL / "rag.yaml",
    as_json: JsonOption = False,
) -> None:
    """Compare the live version with its sources. Exit code 1 when something differs."""
    from jobs.reconcile import run

    raise typer.Exit(run(config, paths or (), repair=repair, as_json=as_json))


@app.command()
def reclaim(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be deleted.")] = False,
    config: ConfigOption = LOCAL / "rag.yaml",
    as_json: JsonOption = False,
) -> None:
    """Delete old versions that nobody uses, and segments that no version needs. Every publishing run does it too."""
    from jobs.index_commands import reclaim_space

    reclaim_space(load_config(config), dry_run=dry_run, as_json=as_json)


# ---------------------------------------------------------------- questions


@app.command()
def ask(
    question: Annotated[str, typer.Argument(help="The question, in words.")],
    identity: AsOption = "",
    url: UrlOption = DEFAULT_URL,
    stream: Annotated[bool, typer.Option("--stream/--no-stream", help="Show the answer while it is written.")] = True,
    config: ConfigOption = LOCAL / "rag.yaml",
    as_json: JsonOption = False,
) -> None:
    """Ask a question; shows the answer, where it comes from, and how long each stage took."""
    with _client(url, identity, config) as client:
        answer = _stream_answer(client, question, show=not as_json) if stream else client.ask(question)
    if as_json:
        printing.print_json(answer.model_dump(mode="json"))
        return
    if not stream:
        printing.out.print(answer.answer, markup=False)
    printing.out.print()
    printing.print_sources(answer)
    printing.print_stages(answer.stages)
    printing.say(f"version {answer.version}, trace {answer.trace_id}")


def _stream_answer(client: Client, question: str, *, show: bool) -> AnswerReply:
    shown = ""
    for event in client.stream(question):
        if event.name == "token" and show:
            text = str(event.data.get("text", ""))
            shown += text
            sys.stdout.write(text)
            sys.stdout.flush()
        elif event.name == "done":
            answer = AnswerReply.model_validate(event.data)
            if show:
                sys.stdout.write("\n" if shown.strip() else answer.answer + "\n")
                sys.stdout.flush()
            return answer
    raise AssertionError("Client.stream ends with `done` or raises")


@app.command()
def search(
    query: Annotated[str, typer.Argument(help="What to search for.")],
    k: Annotated[int, typer.Option("-k", help="Most results.")] = 10,
    identity: AsOption = "",
    url: UrlOption = DEFAULT_URL,
    config: ConfigOption = LOCAL / "rag.yaml",
    as_json: JsonOption = False,
) -> None:
    """Show the best passages, without an answer."""
    with _client(url, identity, config) as client:
        reply = client.search(query, k)
    if as_json:
        printing.print_json(reply.model_dump(mode="json"))
        return
    printing.print_search(reply)
    printing.print_stages(reply.stages)
    printing.say(f"version {reply.version}, trace {reply.trace_id}")


@app.command()
def trace(
    trace_id: Annotated[str, typer.Argument(help="As an answer shows it.")],
    identity: AsOption = "",
    url: UrlOption = DEFAULT_URL,
    config: ConfigOption = LOCAL / "rag.yaml",
) -> None:
    """Print a stored trace as JSON; for whoever asked, or an operator."""
    with _client(url, identity, config) as client:
        printing.print_json(client.trace(trace_id))


@app.command()
def why(
    trace_id: Annotated[str, typer.Argument(metavar="TRACE", help="As an answer or a search shows it.")],
    gold: Annotated[
        list[str] | None, typer.Option("--gold", help="Words that answer the question; may be repeated.")
    ] = None,
    gold_document: Annotated[str, typer.Option("--gold-document", help="Uri of the document that answers it.")] = "",
    golden: Annotated[Path | None, typer.Option("--golden", help="Look the question up in this golden set.")] = None,
    expect: Annotated[
        list[str] | None, typer.Option("--expect", help="Words that a right answer holds; may be repeated.")
    ] = None,
    local: Annotated[
        bool, typer.Option("--local", help="Read the trace database of this machine, as its operator.")
    ] = False,
    identity: AsOption = "",
    url: UrlOption = DEFAULT_URL,
    config: ConfigOption = LOCAL / "rag.yaml",
    as_json: JsonOption = False,
) -> None:
    """Say at which stage a bad answer was lost. Needs the index on this machine."""
    from jobs import trace_commands

    settings = load_config(config)
    if local:
        found = trace_commands.load_trace(settings, trace_id)
    else:
        with _client(url, identity, config) as client:
            found = trace_commands.fetch_trace(client, trace_id)
    spans, words = trace_commands.gold_of(found, gold or (), gold_document, golden)
    operator = local or trace_commands.is_operator(identity, settings)
    cause = trace_commands.explain(settings, found, spans, (*words, *(expect or ())), operator=operator)
    trace_commands.print_why(found, cause, as_json=as_json)


@app.command()
def replay(
    trace_ids: Annotated[list[str] | None, typer.Argument(metavar="[TRACE]...", help="Traces of this machine.")] = None,
    last: Annotated[int | None, typer.Option("--last", min=1, help="The newest so many instead.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All of them instead.")] = False,
    config: ConfigOption = LOCAL / "rag.yaml",
    as_json: JsonOption = False,
) -> None:
    """Repeat stored questions up to the prompt; show the first difference. Exit code 1 when any differs."""
    from jobs import trace_commands

    settings = load_config(config)
    found = trace_commands.stored_ids(settings, trace_ids or (), last, every)
    raise typer.Exit(trace_commands.run_replays(settings, found, as_json=as_json))


# ---------------------------------------------------------------- quality


DatasetArgument = Annotated[
    Path,
    typer.Argument(metavar="[GOLDEN_JSONL | BEIR_FOLDER]", help="What is asked; the sample's golden set if left out."),
]
PrincipalsOption = Annotated[
    Path | None, typer.Option("--principals", help="Who asks; principals.yaml beside the golden set if left out.")
]
ServiceOption = Annotated[str, typer.Option("--url", help="Ask this running service; if left out, in this process.")]
MaxQuestionsOption = Annotated[int | None, typer.Option("--max-questions", min=1, help="A seeded sample of so many.")]
CacheOption = Annotated[
    Path | None, typer.Option("--cache", help="Keep the index of a test collection in this folder.")
]
OutOption = Annotated[Path | None, typer.Option("--out", help="Write the run here, to be a baseline later.")]
HtmlOption = Annotated[Path | None, typer.Option("--html", help="Write a page with plots here.")]
SubmitOption = Annotated[bool, typer.Option("--submit", help="Run it as a Ray job on the cluster of `quire up`.")]


@app.command("eval")
def evaluate(
    dataset: DatasetArgument = GOLDEN,
    principals: PrincipalsOption = None,
    config: ConfigOption = LOCAL / "rag.yaml",
    url: ServiceOption = "",
    max_questions: MaxQuestionsOption = None,
    cache: CacheOption = None,
    out: OutOption = None,
    html: HtmlOption = None,
    submit: SubmitOption = False,
    as_json: JsonOption = False,
) -> None:
    """Measure retrieval stage by stage. Exit code 1 when something happened that must never happen."""
    from jobs.evaluate import EvaluationRequest, request_arguments, run_eval

    request = EvaluationRequest(config, dataset, principals, url, max_questions, cache)
    if submit:
        entry = ["jobs.evaluate", *request_arguments(request, out=out, html=html, as_json=as_json)]
        raise typer.Exit(_submit(_running_cluster(load_config(config)), entry))
    raise typer.Exit(run_eval(request, out=out, html=html, as_json=as_json))


@app.command("gate")
def gate_command(
    dataset: DatasetArgument = GOLDEN,
    baseline: Annotated[
        Path | None, typer.Option("--baseline", help="An earlier run, written by `quire eval --out`; required.")
    ] = None,
    run_file: Annotated[
        Path | None, typer.Option("--run", help="Compare this stored run instead of measuring one.")
    ] = None,
    principals: PrincipalsOption = None,
    config: ConfigOption = LOCAL / "rag.yaml",
    url: ServiceOption = "",
    max_questions: MaxQuestionsOption = None,
    cache: CacheOption = None,
    out: OutOption = None,
    html: HtmlOption = None,
    submit: SubmitOption = False,
    as_json: JsonOption = False,
) -> None:
    """Measure, and say what fell since the baseline. Exit code 1 when anything did, beyond its noise."""
    from jobs.evaluate import EvaluationRequest, request_arguments, run_gate

    if baseline is None:
        raise InputError("which run is the baseline? give --baseline FILE; `quire eval --out FILE` writes one")
    if submit and run_file is not None:
        raise InputError("a stored run is compared here, without a job: leave out --submit")
    request = EvaluationRequest(config, dataset, principals, url, max_questions, cache)
    if submit:
        arguments = request_arguments(request, out=out, html=html, as_json=as_json, baseline=baseline)
        raise typer.Exit(_submit(_running_cluster(load_config(config)), ["jobs.evaluate", *arguments]))
    raise typer.Exit(run_gate(request, baseline, run_file=run_file, out=out, html=html, as_json=as_json))


def _running_cluster(settings: RagConfig) -> local_cluster.ClusterRecord:
    """The cluster of `quire up`. Raises RagError where none runs."""
    cluster = local_cluster.find_cluster(_record_file(settings))
    if cluster is None:
        raise RagError("no cluster to submit to: run `quire up --no-serve` first")
    return cluster


@contextmanager
def _client(url: str, identity: str, config: Path) -> Iterator[Client]:
    """A client as that identity. Without a configuration here, an identity can only be a token."""
    keys_file = api_keys.keys_path(load_config(config)) if config.exists() else None
    token = api_keys.token_for(identity, keys_file) if keys_file else identity
    with Client(url, token) as client:
        yield client


def _record_file(settings: RagConfig) -> Path:
    return settings.var / "cluster.json"


if __name__ == "__main__":
    main()
