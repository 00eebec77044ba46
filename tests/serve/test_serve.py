"""A server on loopback over judges that follow their sources, asked over real HTTP."""

import contextlib
import functools
import gc
import json
import os
import re
import socket
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
import tiny_corpus
from pooling import CASES, solution
from serving import HEADERS, TOKEN, Running, serving
from waiting import wait_until

from kbench.cli import serve as servers
from kbench.core.errors import MachineError, UsageError
from kbench.serve import service as services
from kbench.serve.app import make_server
from kbench.serve.schema import EvaluationRequest, EvaluationResponse
from kbench.serve.service import ServerOptions
from kbench.serve.store import TaskStore

pytestmark = pytest.mark.usefixtures("own_folder")


Start = Callable[..., contextlib.AbstractContextManager[Running]]


@pytest.fixture
def start(tmp_path) -> Start:
    return functools.partial(serving, tmp_path / "state")


def test_an_answer_has_kernelgyms_fields_and_what_was_not_measured_is_null(start) -> None:
    with start() as running:
        told = running.evaluate(task_id="one", num_correct_trials=5, backend="triton", run_performance=False)
        answer = told.json()
        assert told.status_code == 200
        assert (answer["task_id"], answer["status"], answer["verdict"]) == ("one", "completed", "passed")
        assert (answer["compiled"], answer["correctness"], answer["speedup"]) == (True, True, None)
        assert answer["rewards"] == {"correct": 1.0, "speedup": None, "speedup_low": None}
        assert answer["metadata"]["not_used"] == ["backend", "num_correct_trials"]
        wrong = running.evaluate("wrong_value").json()
        assert (wrong["status"], wrong["correctness"], wrong["rewards"]["correct"]) == ("completed", False, 0.0)
        lost = running.evaluate("reference_failed").json()
        assert (lost["status"], lost["correctness"], lost["rewards"]["correct"]) == ("failed", None, None)
        harness = running.evaluate("harness_error").json()
        assert (harness["retryable"], harness["rewards"]["correct"]) == (True, None)


def test_a_full_disk_holds_the_queue_up_and_does_not_end_it(start, monkeypatch) -> None:
    """Every write is refused for a while: nothing is lost, health says so, and all goes on once there is room."""
    monkeypatch.setattr(services, "STORES_AGAIN_S", 0.05)
    full = threading.Event()
    for name in ("begin", "finish"):
        usual = getattr(TaskStore, name)

        def write(self, *values, usual=usual) -> None:
            if full.is_set():
                raise sqlite3.OperationalError("database or disk is full")
            usual(self, *values)

        monkeypatch.setattr(TaskStore, name, write)
    with start(lanes=1) as running:
        full.set()
        accepted = [running.evaluate(number=number, wait=0).json()["task_id"] for number in range(8)]
        accepted.append(running.evaluate(number=9, wait=0, queue_timeout=0.1).json()["task_id"])
        wait_until(lambda: running.client.get("/health").status_code == 503)
        assert "disk is full" in running.client.get("/health").json()["reason"]
        time.sleep(0.3)
        full.clear()
        wait_until(lambda: all(running.client.get(f"/results/{one}").json()["completed_at"] for one in accepted))
        told = [running.client.get(f"/results/{one}").json() for one in accepted]
        assert [one["verdict"] for one in told[:8]] == ["passed"] * 8
        assert running.evaluate(number=10).json()["verdict"] == "passed"
        assert running.client.get("/health").json()["status"] == "healthy"


def test_a_request_that_finds_no_room_is_told_to_come_again(start) -> None:
    with start() as running:
        database = running.store._database
        pages = database.execute("PRAGMA page_count").fetchone()[0]
        database.execute(f"PRAGMA max_page_count = {pages}")
        refused = running.evaluate(kernel_code=solution() + "# long\n" * 50_000)
        assert refused.status_code == 503, refused.text
        assert refused.headers["Retry-After"] == "2"
        assert "cannot be stored" in refused.json()["error"]
        database.execute("PRAGMA max_page_count = 1000000")
        assert running.evaluate().json()["verdict"] == "passed"


def test_a_second_server_of_one_folder_is_refused(start, tmp_path) -> None:
    with start() as running:
        assert running.evaluate().json()["verdict"] == "passed"
        with pytest.raises(MachineError, match="another server answers from"):
            TaskStore(tmp_path / "state" / "tasks.sqlite")
    TaskStore(tmp_path / "state" / "tasks.sqlite").close()


REFUSED = [
    ({"kernel_code": None}, "kernel_code"),
    ({"solution": "eager"}, "kernel_code"),
    ({"problem": "../../etc/passwd", "reference_code": None}, "pattern"),
    ({"kernel_code": None, "solution": "/etc/passwd.py"}, "pattern"),
    ({"problem": "import torch\n", "reference_code": None}, "`problem` is a name: send a text as `reference_code`"),
    ({"kernel_code": None, "solution": "x = 1\ny"}, "`solution` is a name: send a text as `kernel_code`"),
    ({"timeout": -1}, "timeout"),
    ({"trusted": True}, "trusted"),
    ({"accept": ["nonsense"]}, "nonsense"),
    ({"run_correctness": False}, "run_correctness"),
]
UNSTORABLE = [
    ('"accept": ["\\ud800"]', "not Unicode"),
    ('"overrides": {"\\ud800": 1}', "not Unicode"),
    ('"\\udfff": 1', "not Unicode"),
    ('"overrides": {"rows": NaN}', "finite"),
    ('"overrides": {"rows": 1e999}', "finite"),
]
"""Python's JSON reads them; a task that kept one ended its thread of the queue, or no server began with it again."""


@pytest.mark.parametrize(("told", "named"), REFUSED)
def test_a_request_that_cannot_be_is_refused_by_name(start, told, named) -> None:
    with start() as running:
        answer = running.evaluate(**told)
        assert answer.status_code == 422
        assert named in answer.text
        assert running.pool.judged == []


@pytest.mark.parametrize(("field", "named"), UNSTORABLE)
@pytest.mark.parametrize("batch", [False, True])
def test_what_cannot_be_stored_and_read_again_is_refused(start, field, named, batch) -> None:
    body = f'{{"problem": "group_norm", "solution": "eager", {field}}}'
    path, body = ("/evaluate/batch", f'{{"batch_id": "b", "tasks": [{body}]}}') if batch else ("/evaluate", body)
    with start() as running:
        answer = running.client.post(path, content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 422
        assert named in answer.text


@pytest.mark.parametrize("body", [b"{", b"\xff\xfe", b"[" * 100_000, b""])
def test_a_body_that_is_no_json_is_refused(start, body) -> None:
    with start() as running:
        answer = running.client.post("/evaluate", content=body, headers={"Content-Type": "application/json"})
        assert 400 <= answer.status_code < 500
        assert running.evaluate(wait=0).status_code < 300


def test_an_answer_that_cannot_be_given_ends_nothing_else(start, monkeypatch) -> None:
    honest = services.answer_of
    monkeypatch.setattr(services, "answer_of", lambda found: {"status": "completed", "error_message": "\ud800"})
    with start(lanes=1) as running:
        for number in range(services.AHEAD + 1):
            answer = running.evaluate(number=number).json()
            assert (answer["status"], answer["error_code"], answer["retryable"]) == ("failed", "harness_error", True)
        monkeypatch.setattr(services, "answer_of", honest)
        assert running.evaluate().json()["verdict"] == "passed"
        assert running.client.get("/health").json()["queue_status"] == {"pending": 0, "processing": 0}


def test_a_stored_request_that_nobody_understands_ends_no_server(start, tmp_path) -> None:
    with start():
        pass
    with sqlite3.connect(tmp_path / "state" / "tasks.sqlite") as database:
        answer = EvaluationResponse(task_id="old", status="pending").model_dump_json()
        database.execute(
            "INSERT INTO tasks (task_id, digest, request, answer) VALUES ('old', '', ?, ?)", ('{"gone": 1}', answer)
        )
    with start() as running:
        told = running.client.get("/results/old").json()
        assert (told["status"], told["error_code"], told["retryable"]) == ("failed", "harness_error", True)
        assert running.evaluate().json()["verdict"] == "passed"


def test_without_the_token_there_is_nothing_but_health(start) -> None:
    with start() as running:
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": TOKEN}):
            for method, path in (("POST", "/evaluate"), ("GET", "/results/x"), ("DELETE", "/tasks/x")):
                assert httpx.request(method, running.url + path, headers=headers).status_code == 401
        assert httpx.get(f"{running.url}/health").json()["status"] == "healthy"
        assert "/evaluate/batch" in httpx.get(f"{running.url}/openapi.json").json()["paths"]


def test_texts_of_problems_only_where_the_server_takes_them(start) -> None:
    with start(references=False) as running:
        assert "--accept-references" in running.evaluate().text
        assert running.evaluate(reference_code=None, problem="group_norm", case="small").json()["verdict"] == "passed"
        unknown = running.evaluate(reference_code=None, problem="group_morn").json()
        assert (unknown["status"], unknown["error_code"]) == ("failed", "usage")
        assert "group_norm" in unknown["error_message"]


def test_a_full_queue_says_when_to_come_again(start) -> None:
    with start(most_pending=3, lanes=1) as running:
        answers = [running.evaluate("waits", number, wait=0) for number in range(12)]
        codes = Counter(answer.status_code for answer in answers)
        assert codes[429] >= 3, "three wait, and some are with the judges"
        assert codes[202] == 12 - codes[429]
        assert all(int(answer.headers["Retry-After"]) >= 1 for answer in answers if answer.status_code == 429)


def test_a_repeated_request_is_judged_once_and_another_one_of_its_id_is_refused(start) -> None:
    with start() as running:
        first = running.evaluate(task_id="same").json()
        assert running.evaluate(task_id="same").json() == first
        assert running.evaluate("raised", task_id="same").status_code == 409
        assert len(running.pool.judged) == 1


def test_a_batch_is_taken_as_a_whole(start) -> None:
    says = ["passed", "crashed", "harness_error", "passed"]
    tasks = [{"reference_code": CASES, "kernel_code": solution(said, n)} for n, said in enumerate(says)]
    with start(most_pending=5) as running:
        answer = running.client.post("/evaluate/batch", json={"batch_id": "b", "tasks": tasks}).json()
        assert [one["verdict"] for one in answer["results"]] == says
        assert (answer["total_tasks"], answer["completed_tasks"], answer["failed_tasks"]) == (4, 3, 1)
        assert running.client.post("/evaluate/batch", json={"batch_id": "c", "tasks": tasks * 2}).status_code == 429


def test_what_waits_can_be_cancelled_and_what_waits_too_long_says_so(start) -> None:
    with start(lanes=1, most_pending=50) as running:
        for number in range(4):
            running.evaluate("waits", number, wait=0)
        running.evaluate(number=8, task_id="late", queue_timeout=0.1, wait=0)
        running.evaluate(number=9, task_id="unwanted", wait=0)
        gone = running.client.delete("/tasks/unwanted").json()
        assert gone["status"] == "cancelled"
        assert running.client.delete("/tasks/unwanted").status_code == 409
        assert running.client.delete("/tasks/nobody").status_code == 404
        wait_until(lambda: running.client.get("/results/late").json()["status"] == "timeout")
        late = running.client.get("/results/late").json()
        assert (late["error_code"], late["retryable"]) == ("queue_timeout", True)
        running.pool.released.set()
        assert running.evaluate(number=10).json()["verdict"] == "passed"
        assert not [text for text in running.pool.judged if text in {solution(number=8), solution(number=9)}]


def test_answers_are_there_after_a_restart_and_what_had_none_is_judged(start) -> None:
    with start(lanes=1) as running:
        first = running.evaluate(task_id="first").json()
        for number in range(5):
            running.evaluate("waits", number, task_id=f"open{number}", wait=0)
    with start(lanes=1) as running:
        running.pool.released.set()
        assert running.client.get("/results/first").json() == first
        assert running.evaluate(task_id="first").json() == first
        for number in range(5):
            answer = running.evaluate("waits", number, task_id=f"open{number}").json()
            assert answer["verdict"] == "passed"


def test_old_answers_are_deleted_and_what_waits_is_not(start, tmp_path) -> None:
    with start(lanes=1) as running:
        running.evaluate(task_id="old")
        new = running.evaluate(number=1, task_id="new").json()
        running.evaluate("waits", 2, task_id="open", wait=0)
    ago = (datetime.now(UTC) - timedelta(days=3)).isoformat(timespec="milliseconds")
    with contextlib.closing(sqlite3.connect(tmp_path / "state" / "tasks.sqlite")) as database, database:
        date = "UPDATE tasks SET answer = json_set(answer, '$.completed_at', ?) WHERE task_id IN ('old', 'open')"
        database.execute(date, (ago,))
    with start(keep=timedelta(days=2)) as running:
        running.pool.released.set()
        assert running.client.get("/results/old").status_code == 404
        assert running.client.get("/results/new").json() == new
        assert running.evaluate("waits", 2, task_id="open").json()["verdict"] == "passed"


def test_bodies_that_are_refused_leave_nothing_behind(start) -> None:
    """The frames of an exception that is kept in a task live until the collector finds them, with all they hold."""
    chunks = [b"100000\r\n" + b"x" * (1 << 20) + b"\r\n"] * 9
    head = (
        f"POST /evaluate HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
        "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    with start() as running:
        gc.disable()
        try:
            sizes_mb = []
            for _ in range(40):
                with socket.create_connection(("127.0.0.1", running.port), timeout=20) as stream:
                    with contextlib.suppress(ConnectionError):
                        stream.sendall(head.encode() + b"".join(chunks))
                    with contextlib.suppress(ConnectionError):
                        assert stream.recv(20).startswith(b"HTTP/1.1 413")
                pages = int(Path("/proc/self/statm").read_text().split()[1])
                sizes_mb.append(pages * os.sysconf("SC_PAGE_SIZE") >> 20)
        finally:
            gc.enable()
        assert running.evaluate().json()["verdict"] == "passed"
    assert sizes_mb[-1] - sizes_mb[4] < 100, sizes_mb  # 35 of 8 MB each


def test_its_health_counts_what_happened(start) -> None:
    with start() as running:
        running.evaluate()
        running.evaluate("crashed")
        health = running.client.get("/health").json()
    assert (health["status"], health["answered"]) == ("healthy", 2)


def test_a_server_beyond_loopback_needs_a_long_token() -> None:
    assert servers.is_loopback("127.0.0.1")
    assert servers.is_loopback("::1")
    assert not servers.is_loopback("0.0.0.0")
    with pytest.raises(UsageError, match="no token"):
        servers.choose_token(None, "0.0.0.0")
    with pytest.raises(UsageError, match="16 or more"):
        servers.choose_token("short", "127.0.0.1")
    token, is_new = servers.choose_token(None, "localhost")
    assert (len(token) >= 32, is_new) == (True, True)


def test_the_example_of_the_document_runs(start, monkeypatch, capsys) -> None:
    page = (Path(__file__).parents[2] / "docs" / "serve.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```python\n(.*?)^```", page, re.S | re.M)
    with start() as running:
        monkeypatch.setenv("KBENCH_URL", running.url)
        monkeypatch.setenv("KBENCH_TOKEN", TOKEN)
        exec(compile(example, "docs/serve.md", "exec"), {})
    assert capsys.readouterr().out == "passed None 1.0\n"


def test_the_document_names_every_field() -> None:
    page = (Path(__file__).parents[2] / "docs" / "serve.md").read_text(encoding="utf-8")
    fields = {*EvaluationRequest.model_fields, *EvaluationResponse.model_fields}
    unnamed = {name for name in fields if f"`{name}`" not in page}
    assert unnamed == {"entry_point", "run_correctness", "not_used"}


def test_a_client_that_goes_before_its_answer_finds_it_later(start) -> None:
    body = json.dumps({"task_id": "one", "reference_code": CASES, "kernel_code": solution("waits")})
    head = f"POST /evaluate HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {len(body)}\r\n\r\n"
    with start() as running:
        with socket.create_connection(("127.0.0.1", running.port)) as stream:
            stream.sendall(f"{head}{body}".encode())
            wait_until(lambda: running.pool.judged)
        running.pool.released.set()
        wait_until(lambda: running.client.get("/results/one").json()["status"] == "completed")


@pytest.mark.slow
def test_a_real_verdict_over_http(tmp_path) -> None:
    from kbench.api.judge import Judge

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    problem, candidate = tiny_corpus.problem("x + 1"), tiny_corpus.solution("return x + 1")
    with Judge(device="cpu", verify_only=True, require_sandbox=True) as judge:
        options = ServerOptions(token=TOKEN, port=port, state=tmp_path / "state", references=True)
        server, store = make_server(judge, options)
        thread = threading.Thread(target=server.run)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            verdicts = []
            for text in (candidate, candidate.replace("+ 1", "+ 2")):
                body = {"reference_code": problem, "kernel_code": text}
                told = httpx.post(f"http://127.0.0.1:{port}/evaluate", json=body, headers=HEADERS, timeout=300).json()
                verdicts.append(told["verdict"])
            assert verdicts == ["passed", "wrong_value"]
            assert told["metadata"]["isolation"] != "none"
        finally:
            server.should_exit = True
            thread.join()
            store.close()
