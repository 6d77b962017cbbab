from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from importlib.metadata import distribution
from pathlib import Path

import pytest

from pocketquery import sdk
from pocketquery.sdk import cli
from pocketquery.sdk.bundle.adapter import write_adapter
from pocketquery.sdk.bundle.manifest import Space
from pocketquery.sdk.bundle.safetensors import serialize
from pocketquery.sdk.bundle.signature import key_id
from pocketquery.sdk.bundle.writing import pack_files
from pocketquery.sdk.cli import IN_PACKAGES
from pocketquery.sdk.commands import SUMMARIES
from tests.sdk.tiny_bundle import (
    PRIVATE,
    SPACE_ID,
    trained_adapter,
    write_tiny_bundle,
    write_tiny_index,
)
from tests.sdk.tiny_bundle import PUBLIC as PUBLIC_KEY
from tests.shell import Shell

PUBLIC = PUBLIC_KEY.hex()
KEY = key_id(PUBLIC)
KEPT = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}


def run(
    arguments: Sequence[str], *, text: str | bytes = b"", environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    data = text.encode() if isinstance(text, str) else text
    result = subprocess.run(
        [sys.executable, "-m", "pocketquery.sdk", *arguments],
        input=data,
        capture_output=True,
        env={**KEPT, "PYTHONIOENCODING": "utf-8", **(environment or {})},
    )
    return subprocess.CompletedProcess(
        result.args, result.returncode, result.stdout.decode(), result.stderr.decode()
    )


def test_help_lists_every_command_with_examples() -> None:
    result = run(["--help"])
    assert result.returncode == 0
    for command in SUMMARIES.keys() - IN_PACKAGES.keys():
        assert re.search(rf"^    {command}\b", result.stdout, re.MULTILINE), command
    ours = distribution("pocketquery").entry_points.select(group="pocketquery.commands")
    assert {point.name for point in ours} == SUMMARIES.keys() - IN_PACKAGES.keys()
    assert "examples:" in result.stdout


@pytest.mark.parametrize("command", ["encode", "search", "verify"])
def test_each_command_has_examples(command: str, shell: Shell) -> None:
    shell(command, "--help", says=f"examples:\n  pocketquery {command}")


def test_without_a_command_it_prints_help(shell: Shell) -> None:
    shell(says="commands")


def test_a_file_that_this_user_may_not_read(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "notes/index.json")

    monkeypatch.setattr("pocketquery.sdk.index.info.read_info", refused)
    monkeypatch.setattr("pocketquery.sdk.searching.command.open_index", refused)
    shell(
        "search", "--index", "notes", "x", code=2, says="notes/index.json: this user may not open"
    )


def test_version(shell: Shell) -> None:
    assert re.fullmatch(r"pocketquery \d+\.\d+\.\d+\n", shell("--version").out)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            "search --idnex big hi",
            "search: error: there is no option --idnex; did you mean --index?",
        ),
        ("search --index big hi --modee=dense", "search: error: there is no option --modee; did"),
        ("encode --fly", "encode: error: there is no option --fly\n"),
        ("delta make --odl a", "delta make: error: there is no option --odl; did you mean --old?"),
        ("--vresion", "pocketquery: error: there is no option --vresion; did you mean --version?"),
        (
            "search --index big hi -z",
            "search: error: there is no option -z. As a query: pocketquery search -- -z\n",
        ),
        (
            "search --force",
            "there is no option --force. As a query: pocketquery search -- --force\n",
        ),
        (
            "search --index big what did I plant",
            "expected one query, found more: did I plant; where it has spaces, put it in quotes: "
            '"what did I plant"',
        ),
        ("verify My Documents/bundle", 'put it in quotes: "My Documents/bundle"'),
        ("doctor now", "doctor: error: no option takes these words: now; see pocketquery doctor"),
    ],
)
def test_what_no_command_takes_is_named(arguments: str, message: str, shell: Shell) -> None:
    printed = shell(*arguments.split(), code=2, says=message)
    command = message.partition(": error")[0] if ": error" in message else arguments.split()[0]
    assert printed.err.startswith(
        f"usage: pocketquery {command.removeprefix('pocketquery')}".rstrip()
    )


def test_short_options_and_texts_that_begin_with_a_dash(
    tiny_bundle: Path, tiny_index: Path
) -> None:
    both = ["--bund", str(tiny_bundle), f"--index={tiny_index}", "--js"]
    for query in (["-- the sea"], ["--", "--the-sea"]):
        hit = json.loads(run(["search", *both, "-n1", *query]).stdout)
        assert hit["query"] == query[-1]


def test_encode_prints_the_vectors_as_json(tiny_bundle: Path) -> None:
    result = run(["encode", "--bundle", str(tiny_bundle), "--json", "the sea", "x"])
    assert result.stderr == ""
    answer = json.loads(result.stdout)
    assert answer["space_id"] == SPACE_ID
    assert answer["dimension"] == 16
    assert answer["vectors"] == sdk.load(tiny_bundle).encode(["the sea", "x"]).tolist()


def test_encode_and_search_take_an_adapter(
    tiny_bundle: Path, tiny_index: Path, tmp_path: Path
) -> None:
    manifest = sdk.load(tiny_bundle).manifest
    path = tmp_path / "adapter-2.safetensors"
    write_adapter(path, trained_adapter(), manifest=manifest, version="2", parent_version="1")
    encoder = sdk.load(tiny_bundle, adapter=path)
    both = ["--bundle", str(tiny_bundle), "--adapter", str(path), "--json"]
    answer = json.loads(run(["encode", *both, "the sea"]).stdout)
    assert answer["version"] == "2"
    assert answer["vectors"] == encoder.encode(["the sea"]).tolist()
    options = ["--index", str(tiny_index), "--min-score=-1", "the sea"]
    lines = run(["search", *both, *options]).stdout.splitlines()
    with sdk.open_index(tiny_index, encoder=encoder) as index:
        assert [json.loads(line)["score"] for line in lines] == [
            hit.score for hit in index.search("the sea")
        ]
    path.write_bytes(path.read_bytes()[:-1])
    result = run(["encode", *both, "the sea"])
    assert result.returncode == 2
    assert "adapter-2.safetensors" in result.stderr


def test_encode_reads_lines_and_prints_for_a_person(tiny_bundle: Path) -> None:
    result = run(["encode", "--bundle", str(tiny_bundle)], text="the sea\r\nzürich\n")
    lines = result.stdout.splitlines()
    assert lines[0] == "the sea"
    assert lines[2] == "zürich"
    assert lines[1].startswith("    16 dimensions: ")


def test_the_bundle_may_come_from_the_environment(tiny_bundle: Path) -> None:
    result = run(["encode", "x"], environment={"POCKETQUERY_BUNDLE": str(tiny_bundle)})
    assert result.returncode == 0


def test_a_folder_with_the_built_in_encoders_name_is_not_used_and_a_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = run(["encode", "x"]).stdout
    write_tiny_bundle(tmp_path / "default")
    monkeypatch.chdir(tmp_path)
    for options in ([], ["--bundle", "default"]):
        result = run(["encode", *options, "x"])
        assert (result.returncode, result.stdout) == (0, expected)
        assert result.stderr == (
            "pocketquery: warning: default is taken for the installed one of that name, not for "
            "what is in the working folder; write ./default for that\n"
        )
    assert run(["encode", "--bundle", "./default", "x"]).stdout != expected


@pytest.mark.parametrize(
    ("arguments", "text", "message"),
    [
        (["encode", "--bundle", "absent", "x"], b"", "absent: found nothing there"),
        (["encode", "--bundle", "BUNDLE"], b"ok\n\xff\n", "stdin, line 2: not UTF-8 at byte 0"),
        (["encode", "--bundle", "BUNDLE", "--prompt-name", "no", "x"], b"", "prompt_name is 'no'"),
        (["verify", "absent"], b"", "absent: found nothing there"),
        (["verify", "BUNDLE", "--public-key", "0" * 64], b"", "found no signature"),
    ],
)
def test_an_error_is_one_line_and_exit_code_2(
    tiny_bundle: Path, arguments: list[str], text: bytes, message: str
) -> None:
    arguments = [str(tiny_bundle) if item == "BUNDLE" else item for item in arguments]
    result = run(arguments, text=text)
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith("pocketquery: error: ")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["delta", "show", "absent"], "absent is missing; expected a delta, which pocketquery del"),
        (["delta", "show", "."], "expected a plain file; expected a delta, which pocketquery delt"),
        (["delta", "apply", "absent", "--index", "INDEX"], "absent is missing; expected a delta"),
        (["verify", "DELTA"], "expected a bundle (this is a delta: pocketquery delta show checks"),
        (["encode", "--bundle", "INDEX", "x"], "expected a bundle (this is an index)"),
        (["search", "--index", "BUNDLE", "x"], "is no index, it has no index.json; name an index'"),
        (
            ["encode", "--bundle", "BUNDLE", "--adapter", "TENSORS", "x"],
            "a bundle's own adapter.safetensors is none, and is loaded with its bundle",
        ),
    ],
)
def test_one_artefact_taken_for_another_is_told(
    tiny_bundle: Path, tiny_index: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    pack_files({"delta.json": b"{}"}, tmp_path / "a.delta")
    (tmp_path / "adapter.safetensors").write_bytes(serialize(trained_adapter()))
    places = {"BUNDLE": tiny_bundle, "INDEX": tiny_index, "DELTA": tmp_path / "a.delta"}
    for name, place in (places | {"TENSORS": tmp_path / "adapter.safetensors"}).items():
        arguments = [item.replace(name, str(place)) for item in arguments]
    result = run(arguments)
    assert result.returncode == 2
    assert message in result.stderr


def test_verify_reports_for_a_person_and_as_json(tiny_bundle: Path) -> None:
    report = sdk.verify(tiny_bundle)
    as_json = json.loads(json.dumps(report.to_dict()))
    assert json.loads(run(["verify", "--json", str(tiny_bundle)]).stdout) == as_json
    text = run(["verify", str(tiny_bundle)]).stdout
    assert text.startswith(f"{tiny_bundle}: a sound bundle\n")
    assert SPACE_ID in text
    assert "not checked" in text


def test_another_space_is_refused_with_both_ids(tiny_index: Path, tmp_path: Path) -> None:
    other = write_tiny_bundle(tmp_path / "b", space=Space("space-other", 16))
    result = run(["search", "--bundle", str(other), "--index", str(tiny_index), "the sea"])
    assert result.returncode == 2
    assert "space-other" in result.stderr
    assert SPACE_ID in result.stderr


def test_verify_reads_an_index_too(tiny_index: Path) -> None:
    text = run(["verify", str(tiny_index)]).stdout
    assert text.startswith(f"{tiny_index}: a sound index\n")
    assert "documents  3" in text


def test_a_tampered_bundle_fails_verification(tmp_path: Path) -> None:
    path = write_tiny_bundle(tmp_path / "b")
    (path / "golden.json").write_bytes(b"{}")
    result = run(["verify", str(path)])
    assert result.returncode == 2
    assert "golden.json has 2 bytes" in result.stderr


def test_a_filter_that_is_no_object_is_refused_before_anything_is_opened() -> None:
    base = ["search", "--bundle", "b", "--index", "i", "q", "--filter"]
    deep = '{"$not":' * 10_000
    for value, message in (
        ("[1]", "expected a JSON object"),
        ("{", "not valid JSON"),
        (deep, "not valid JSON"),
        ('{"tenant": "a", "tenant": "b"}', "the key 'tenant' occurs twice"),
        ('{"$or": [{"year": {"$gte": 1, "$gte": 2}}]}', "the key '$gte' occurs twice"),
    ):
        result = run([*base, value])
        assert result.returncode == 2
        assert message in result.stderr


def test_a_reader_that_leaves_early_is_no_error(tiny_bundle: Path) -> None:
    script = (
        f"yes 'the sea' | head -2000 | {sys.executable} -m pocketquery.sdk encode "
        f"--bundle {tiny_bundle} | head -1; echo ${{PIPESTATUS[2]}}"
    )
    result = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert result.stdout.splitlines() == ["the sea", "0"]
    assert result.stderr == ""


def test_an_interruption_exits_130_without_a_traceback(tiny_bundle: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "pocketquery.sdk", "encode", "--bundle", str(tiny_bundle)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # Where the tests run in a shell's background, they and their children ignore it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(b"the sea\n")
        process.stdin.flush()
        wait_until_drained(process.stdin.fileno())
        assert interrupted(process) == 130
        assert process.stderr.read() == b""


def interrupted(process: subprocess.Popen[bytes]) -> int:
    """The exit status after an interruption, repeated as a person would where it was not heard.

    Python looks at signals between its instructions and where a read is broken off: one that comes
    just before the read begins waits for the next. On a busy machine that does happen.
    """
    for _ in range(4):
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(10)
    pytest.fail("the command heard none of four interruptions in 40 s")


def wait_until_drained(pipe: int) -> None:
    """Then the process at the other end has read what was written, and waits for more."""
    unread = b"\1"
    for _ in range(2000):
        unread = fcntl.ioctl(pipe, termios.FIONREAD, bytes(4))
        if not any(unread):
            return
        time.sleep(0.01)
    pytest.fail(f"the command did not read its stdin in 20 s ({unread!r} bytes are left)")


# The packages of the extras are not found in this process, as in a base install.
UNINSTALLED = """
import sys
from importlib.machinery import PathFinder
found = PathFinder.find_spec
hidden = ("torch", "transformers", "onnx", "tqdm", "ir_measures", "pyarrow", "shtab")
def find_spec(name, path=None, target=None):
    return None if name.partition(".")[0] in hidden else found(name, path, target)
PathFinder.find_spec = find_spec
from pocketquery.sdk.cli import main
sys.exit(main(sys.argv[1:]))
"""


def test_without_the_extras_help_still_works() -> None:
    result = subprocess.run(
        [sys.executable, "-c", UNINSTALLED, "--help"], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    for command in SUMMARIES.keys() - IN_PACKAGES.keys():
        assert re.search(rf"^    {command}\b", result.stdout, re.MULTILINE), command
    ours = distribution("pocketquery").entry_points.select(group="pocketquery.commands")
    assert {point.name for point in ours} == SUMMARIES.keys() - IN_PACKAGES.keys()
    listing = " ".join(result.stdout.split())
    assert re.search(r'distill Distil [^"]*needs: pip install "pocketquery\[server\]"', listing)
    assert re.search(r"encode Encode texts into vectors. slice", listing)
    assert re.search(r'completion [^"]*needs: pip install "pocketquery\[completion\]"', listing)


def test_without_its_extra_a_command_names_it() -> None:
    arguments = ["evaluate", "--bundle", "b", "--corpus", "c", "--queries", "q", "--qrels", "r"]
    result = subprocess.run(
        [sys.executable, "-c", UNINSTALLED, *arguments], capture_output=True, text=True
    )
    assert result.returncode == 2
    assert "pocketquery[server]" in result.stderr


@pytest.mark.parametrize("command", IN_PACKAGES)
def test_a_command_whose_package_is_not_installed_says_which_to_install(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ours = distribution("pocketquery").entry_points
    monkeypatch.setattr(cli, "entry_points", lambda group: ours.select(group=group))
    assert cli.main([command]) == 2
    problem = capsys.readouterr().err
    assert problem.count("\n") == 1
    assert f"pip install ./{IN_PACKAGES[command]} in a checkout" in problem


ASCII = {"PYTHONIOENCODING": "ascii"}


def test_a_terminal_without_the_letters_gets_their_numbers(tiny_bundle: Path) -> None:
    result = run(["encode", "--bundle", str(tiny_bundle), "h\xe9"], environment=ASCII)
    assert result.stdout.startswith(r"h\xe9"), result.stderr


def test_json_is_json_in_any_encoding(tiny_bundle: Path, tiny_index: Path) -> None:
    arguments = ["search", "--json", "--bundle", str(tiny_bundle), "--index", str(tiny_index)]
    result = run([*arguments, "-n1", "--min-score=-1", "h\xe9 \U0001f600"], environment=ASCII)
    assert json.loads(result.stdout)["query"] == "h\xe9 \U0001f600"


@pytest.fixture
def signed(tmp_path: Path) -> tuple[Path, Path]:
    bundle = write_tiny_bundle(tmp_path / "signed", signing_key=PRIVATE)
    return bundle, write_tiny_index(tmp_path / "signed-index", signing_key=PRIVATE)


@pytest.mark.slow
def test_every_command_takes_a_key_by_option_or_environment(
    tiny_bundle: Path, tiny_index: Path, signed: tuple[Path, Path]
) -> None:
    for bundle, index, code in ((*signed, 0), (tiny_bundle, tiny_index, 2)):
        for command in (
            ["encode", "--bundle", str(bundle), "x"],
            ["search", "--bundle", str(bundle), "--index", str(index), "x"],
            ["verify", str(bundle)],
            ["verify", str(index)],
        ):
            for given in (["--public-key", PUBLIC], []):
                environment = {} if given else {"POCKETQUERY_PUBLIC_KEY": PUBLIC}
                result = run([*command, *given], environment=environment)
                assert result.returncode == code, (command, result.stderr)
                assert not code or f"no signature, expected one by the key {KEY}" in result.stderr


def test_search_checks_the_signature_of_the_index(
    tiny_index: Path, signed: tuple[Path, Path]
) -> None:
    for index, code in ((signed[1], 0), (tiny_index, 2)):
        arguments = ["search", "--bundle", str(signed[0]), "--index", str(index), "x"]
        assert run([*arguments, "--public-key", PUBLIC]).returncode == 0
        result = run([*arguments, "--index-public-key", PUBLIC])
        assert result.returncode == code, result.stderr


def test_an_unsigned_adapter_is_refused(signed: tuple[Path, Path], tmp_path: Path) -> None:
    manifest = sdk.load(signed[0]).manifest
    path = tmp_path / "a.safetensors"
    write_adapter(path, trained_adapter(), manifest=manifest, version="2")
    arguments = ["encode", "--bundle", str(signed[0]), "--adapter", str(path), "x"]
    assert run(arguments).returncode == 0
    result = run([*arguments, "--public-key", PUBLIC])
    assert result.returncode == 2
    assert "the adapter is not signed" in result.stderr


def test_an_empty_key_is_an_error_and_not_no_key(tiny_bundle: Path) -> None:
    arguments = ["encode", "--bundle", str(tiny_bundle), "x"]
    assert run([*arguments, "--public-key", ""]).returncode == 2
    result = run(arguments, environment={"POCKETQUERY_PUBLIC_KEY": ""})
    assert result.returncode == 2
    assert "POCKETQUERY_PUBLIC_KEY is set and empty" in result.stderr


def test_verify_tells_what_was_checked_from_what_is_claimed(signed: tuple[Path, Path]) -> None:
    for path in signed:
        claimed = run(["verify", str(path)]).stdout
        assert f"signature  not checked (no key; it says: by {KEY})" in claimed
        checked = run(["verify", str(path), "--public-key", PUBLIC]).stdout
        assert f"signature  by the key {KEY}" in checked


def test_an_unknown_command_names_the_nearest(shell: Shell) -> None:
    shell("serach", "x", code=2, says='no command "serach"; did you mean "search"?')
    shell("zzzzz", code=2, says="there are")
