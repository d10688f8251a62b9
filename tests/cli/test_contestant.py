"""What a contestant does, against a platform that runs."""

import csv
import io
import json
import os
import signal
import subprocess
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import httpx
import pytest

from tests.cli.conftest import ROOT, Shell

GOOD = ROOT / "problems/warmup/vector_add/submissions/accepted/torch.py"
WRONG = "def custom_kernel(data):\n    data[-1].zero_()\n"
SLOW = "import time\ndef custom_kernel(data):\n    time.sleep(60)\n"


@pytest.fixture(scope="module")
def wrong(platform: Shell) -> Path:
    file = platform.folder / "wrong.py"
    file.write_text(WRONG)
    return file


def test_an_accepted_entry_ends_with_0_and_one_object_on_stdout(platform: Shell) -> None:
    done = platform.derby("submit", str(GOOD), "--problem", "vector_add", "--json")

    verdict = json.loads(done.stdout)
    assert (done.returncode, verdict["outcome"], verdict["state"]) == (0, "accepted", "done"), done.stderr
    assert "Submission" in done.stderr


def test_a_wrong_entry_ends_with_1_and_says_what_to_do(platform: Shell, wrong: Path) -> None:
    done = platform.derby("submit", str(wrong), "--problem", "vector_add")

    assert done.returncode == 1
    assert "wrong values (gate right)" in done.stdout
    assert f"derby judge {wrong} --problem vector_add" in done.stdout


def test_show_and_watch_agree_with_submit(platform: Shell, wrong: Path) -> None:
    number = str(json.loads(platform.derby("submit", str(wrong), "--problem", "vector_add", "--no-wait", "--json").stdout)["submission"])

    watched = platform.derby("watch", number, "--json")
    shown = platform.derby("show", number, "--json")

    assert json.loads(watched.stdout) == json.loads(shown.stdout)
    assert (watched.returncode, shown.returncode) == (1, 1)


def test_ranked_entries_stand_on_the_board(platform: Shell) -> None:
    sent = platform.derby("submit", str(GOOD), "--problem", "vector_add", "--mode", "ranked", "--licence", "Apache-2.0", "--json")
    assert sent.returncode == 0, sent.stderr

    board = json.loads(platform.derby("board", "vector_add", "--json").stdout)
    rows = list(csv.DictReader(io.StringIO(platform.derby("board", "vector_add", "--csv").stdout)))
    text = platform.derby("board", "vector_add").stdout

    assert [r["person"] for r in board["rows"]] == ["local"]
    assert [float(r["score_us"]) for r in rows] == [r["score_us"] for r in board["rows"]]
    assert "local" in text


def test_a_board_without_entries_says_how_to_be_first(platform: Shell) -> None:
    assert "Be the first" in platform.derby("board", "row_softmax").stdout


def test_problems_are_listed_and_begun(platform: Shell) -> None:
    listed = json.loads(platform.derby("problems", "--json").stdout)["problems"]
    begun = platform.derby("init", "vector_add", "--into", "mine")

    assert {"vector_add", "row_softmax", "gqa_paged_decode"} <= {p["name"] for p in listed}
    assert (platform.folder / "mine" / "starter.py").is_file(), begun.stderr
    assert "Edit mine/starter.py" in begun.stdout, "it runs on every class; starter.cu does not"
    assert platform.derby("init", "vector_add", "--into", "mine").returncode == 2, "files of one's own are never overwritten"


def test_env_names_the_classes_and_what_a_kernel_finds_there(platform: Shell) -> None:
    assert "torch: 2." in platform.derby("env").stdout
    cpu = json.loads(platform.derby("env", "--json").stdout)["devices"][0]
    assert {"python", "torch", "triton"} <= set(cpu["environment"])


def test_cancel_ends_a_submission(platform: Shell) -> None:
    file = platform.folder / "slow.py"
    file.write_text(SLOW)
    number = str(json.loads(platform.derby("submit", str(file), "--problem", "row_softmax", "--no-wait", "--json").stdout)["submission"])

    cancelled = platform.derby("cancel", number)

    assert cancelled.returncode == 0, cancelled.stderr
    assert json.loads(platform.derby("watch", number, "--json").stdout)["outcome"] == "cancelled"


def test_cancelling_what_is_done_changes_nothing_and_says_so(platform: Shell) -> None:
    number = str(json.loads(platform.derby("submit", str(GOOD), "--problem", "vector_add", "--json").stdout)["submission"])

    assert "its verdict stands" in platform.derby("cancel", number).stdout
    assert json.loads(platform.derby("show", number, "--json").stdout)["outcome"] == "accepted"


def test_ctrl_c_ends_the_waiting_and_not_the_judging(platform: Shell) -> None:
    file = platform.folder / "slow.py"
    file.write_text(SLOW)
    process = platform.start("submit", str(file), "--problem", "row_softmax")
    assert process.stderr
    number = process.stderr.readline().split()[1].rstrip(":")
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)

    assert process.returncode == 130
    assert f"derby watch {number}" in errors
    assert "Traceback" not in errors
    assert json.loads(platform.derby("show", number, "--json").stdout)["state"] != "done"
    platform.derby("cancel", number)


def test_login_keeps_a_token_for_its_owner_alone(platform: Shell, tmp_path: Path) -> None:
    token = json.loads(platform.derby("token", "new", "laptop", "--person", "ada", "--json").stdout)["token"]
    url = (platform.folder / ".derby" / "url").read_text().strip()
    other = Shell(tmp_path, {"DERBY_URL": url})
    assert other.derby("submit", str(GOOD), "--problem", "vector_add").returncode == 2, "nobody knows who that is"

    done = other.derby("login", "--json", stdin=f"{token}\n")

    assert json.loads(done.stdout)["name"] == "ada"
    assert os.stat(tmp_path / "config/kernelderby/tokens.json").st_mode & 0o077 == 0
    assert other.derby("submit", str(GOOD), "--problem", "vector_add", "--no-wait").returncode == 0


def test_a_revoked_token_is_refused(platform: Shell) -> None:
    token = json.loads(platform.derby("token", "new", "laptop", "--person", "eve", "--json").stdout)["token"]
    listed = json.loads(platform.derby("token", "list", "--person", "eve", "--json").stdout)["tokens"]
    platform.derby("token", "revoke", str(listed[0]["id"]), "--person", "eve")

    done = platform.derby("submit", str(GOOD), "--problem", "vector_add", DERBY_TOKEN=token)

    assert done.returncode == 2
    assert "token" in done.stderr


def test_a_contestant_makes_an_agent_whose_budget_bites(platform: Shell) -> None:
    own = json.loads(platform.derby("token", "new", "laptop", "--person", "joan", "--json").stdout)["token"]
    made = platform.derby("token", "new", "robot", "--agent", "--runs", "1", "--json", DERBY_TOKEN=own)
    robot = json.loads(made.stdout)["token"]

    def send() -> subprocess.CompletedProcess[str]:
        return platform.derby("submit", str(GOOD), "--problem", "vector_add", "--no-wait", "--json", DERBY_TOKEN=robot)
    sent, refused = send(), send()
    shown = platform.derby("show", str(json.loads(sent.stdout)["submission"]))
    listed = platform.derby("token", "list", DERBY_TOKEN=own).stdout

    assert "Sent by agent robot of joan." in shown.stdout
    assert refused.returncode == 2
    assert "1 of 1 runs" in refused.stderr
    assert "1 of 1 runs" in listed
    assert platform.derby("token", "new", "child", DERBY_TOKEN=robot).returncode == 2
    assert platform.derby("token", "revoke", "robot", DERBY_TOKEN=own).returncode == 0
    assert "revoked" in send().stderr


def test_a_role_is_never_changed_in_passing(platform: Shell) -> None:
    platform.derby("token", "new", "first", "--person", "grace")

    done = platform.derby("token", "new", "second", "--person", "grace", "--role", "organizer")

    assert done.returncode == 2
    assert "grace is a contestant already" in done.stderr


def test_a_board_is_closed_and_opened_again(platform: Shell) -> None:
    def send() -> "tuple[int, str]":
        done = platform.derby("submit", str(GOOD), "--problem", "vector_add", "--no-wait")
        return done.returncode, done.stderr

    assert "derby problem open vector_add" in platform.derby("problem", "close", "vector_add").stdout
    closed = send()
    over = platform.derby("problem", "open", "vector_add", "--until", "2020-01-31T18:00:00"), send()
    assert platform.derby("problem", "open", "vector_add").stdout == "vector_add is open.\n"

    assert closed[0] == 2 and "takes no submissions now" in closed[1]
    assert "until 2020-01-31 18:00 UTC" in over[0].stdout and "closed at 2020-01-31 18:00 UTC" in over[1][1]
    assert send()[0] == 0


def test_the_login_link_opens_a_session_once(platform: Shell) -> None:
    said = json.loads(platform.derby("up", "--json").stdout)   # a second `up` points at the first
    code = said["login"].partition("code=")[2]

    with httpx.Client(base_url=said["url"], trust_env=False) as http:
        opened = [http.post("/login", data={"code": code}, headers={"Origin": said["url"]}).status_code for _ in range(2)]

    assert opened[0] < 400 <= opened[1]


BAD = [   # what is sent, how, and words of the sentence that helps
    ("empty.py", b"", (), "empty"),
    ("binary.py", b"\x00\x01\x02", (), "NUL"),
    ("latin.py", "# é\n".encode("latin-1"), (), "UTF-8"),
    ("large.py", b"#" * (2 * 1024 * 1024), (), "1 MiB"),
    ("kernel.txt", b"x = 1\n", (), ".py"),
    ("k.py", b"x = 1\n", ("--problem", "nothing_like_it"), "no problem"),
    ("k.py", b"x = 1\n", ("--problem", "vector_add", "--device", "abacus"), "device"),
    ("k.py", b"x = 1\n", ("--problem", "vector_add", "--device", "h200"), "cpu"),
    ("k.py", b"x = 1\n", ("--problem", "vector_add", "--mode", "profile"), "profile"),
    ("k.py", b"x = 1\n", ("--problem", "vector_add", "--mode", "ranked"), "licence"),
    ("k.py", b"#!POPCORN leaderboard a\n#!POPCORN leaderboard b\n", (), "two problems"),
    ("k.py", b"#!POPCORN leaderboard row_softmax\nx = 1\n", ("--problem", "vector_add"), "row_softmax"),
    ("k.py", b"x = 1\n", (), "problem"),
    ("k.py", b"x = 1\n", ("--problem", "</script>\x1b[31m"), "no problem"),
]


@pytest.mark.parametrize(("name", "content", "options", "words"), BAD, ids=[f"{i}-{b[3]}" for i, b in enumerate(BAD)])
def test_bad_input_is_a_sentence_and_status_2(platform: Shell, name: str, content: bytes, options: tuple[str, ...], words: str) -> None:
    file = platform.folder / name
    file.write_bytes(content)

    done = platform.derby("submit", str(file), "--json", *options)

    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert "\x1b" not in done.stderr


@pytest.mark.parametrize("arguments", [
    ("show", "999999"), ("watch", "999999"), ("cancel", "999999"), ("show", "0"), ("show", "x"), ("frobnicate",),
    ("board", "nothing"), ("board", "a/b?c#d"), ("init", "nothing"), ("init", "../people/me"),
    ("submit", "nowhere.py"), ("submit", "."), ("board", "vector_add", "--json", "--csv"),
    ("board", "vector_add", "-d", "abacus"), ("problem", "add", "nowhere"), ("problem", "check", "nowhere"), ("problem", "new", "one_word"),
    ("problem", "new", "warmup/Bad-Name"), ("problem", "new", "Warmup/good"), ("problem", "add", "vector_add", "-d", "abacus"),
    ("problem", "close", "nothing"), ("problem", "open", "vector_add", "--until", "soon"),
    ("token", "list", "--person", "nobody"), ("worker", "--device", "abacus"), ("judge", "nowhere.py", "--problem", "vector_add"),
], ids=" ".join)
def test_wrong_requests_end_with_2_and_a_sentence(platform: Shell, arguments: tuple[str, ...]) -> None:
    done = platform.derby(*arguments)

    assert done.returncode == 2, done.stderr
    assert done.stderr.strip()
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", [("problems",), ("show", "1"), ("watch", "1"), ("board", "p"), ("submit", "k.py", "-p", "p")],
                         ids=" ".join)
def test_without_a_server_it_is_our_fault_and_says_how_to_start_one(shell: Shell, arguments: tuple[str, ...]) -> None:
    (shell.folder / "k.py").write_text("x = 1\n")

    done = shell.derby(*arguments, "--json")

    assert done.returncode == 3
    assert done.stdout == ""
    assert "./derby up" in done.stderr


@pytest.mark.parametrize("url", ["not a url", "http://[::1", "ftp://127.0.0.1:9", "http://127.0.0.1:99999"])
def test_an_address_that_is_none_is_a_sentence(shell: Shell, url: str) -> None:
    done = shell.derby("problems", DERBY_URL=url)

    assert done.returncode in (2, 3)
    assert "DERBY_URL" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_server_of_another_kind_is_a_sentence(shell: Shell) -> None:
    server = HTTPServer(("127.0.0.1", 0), SaysHello)
    Thread(target=server.serve_forever, daemon=True).start()

    url = f"http://127.0.0.1:{server.server_port}"
    done = [shell.derby(*command.split(), DERBY_URL=url) for command in ("problems", "show 1", "init p")]
    server.shutdown()

    assert [d.returncode for d in done] == [2, 2, 2]
    assert all("is it a Kernel Derby server?" in d.stderr for d in done)


class SaysHello(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"hello": "world"}')

    def log_message(self, *_: object) -> None:
        return
