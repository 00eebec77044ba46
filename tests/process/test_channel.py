"""What crosses a process boundary: framing, limits, deadlines, descriptors and value trees."""

import json
import math
import os
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from waiting import PATIENCE_S

from kbench.core.model import Status
from kbench.core.printable import printable
from kbench.process import channel as wire_channel
from kbench.process.channel import Channel, DeadlineError, PeerGoneError, WireError
from kbench.process.child_error import ChildError


@pytest.fixture
def ends() -> Iterator[tuple[Channel, socket.socket]]:
    """A channel, and the bare socket of a peer that may say anything."""
    ours, theirs = socket.socketpair()
    channel = Channel(ours)
    yield channel, theirs
    channel.close()
    theirs.close()


# --- framing -------------------------------------------------------------------


@pytest.mark.parametrize(("size", "counts"), [(10, False), (wire_channel.SOON_PARSED_BYTES + 1, True)])
def test_parsing_a_long_answer_is_time_that_its_sender_took(ends, monkeypatch, size, counts) -> None:
    parsed_ns = []

    def slow(line: bytes) -> dict[str, object]:
        time.sleep(0.02)
        parsed_ns.append(time.perf_counter_ns())
        return json.loads(line)

    monkeypatch.setattr(wire_channel, "parse", slow)
    channel, peer = ends
    peer.sendall(json.dumps({"padding": "x" * size}).encode() + b"\n")
    channel.receive(PATIENCE_S)
    assert (channel.received_ns >= parsed_ns[0]) == counts


def test_messages_arrive_one_by_one(ends) -> None:
    """However the bytes are cut."""
    channel, peer = ends
    peer.sendall(b'{"a":1}\n{"b"')
    assert channel.receive(PATIENCE_S) == {"a": 1}
    peer.sendall(b":2}\n")
    assert channel.receive(PATIENCE_S) == {"b": 2}


def test_a_long_message_goes_there_and_back(ends) -> None:
    channel, peer = ends
    sent = {"text": "é\n\x00" * 300_000}
    answers: list[wire_channel.Message] = []
    reader = threading.Thread(target=lambda: answers.append(Channel(peer).receive(PATIENCE_S)))
    reader.start()
    channel.send(sent)
    reader.join(PATIENCE_S)
    assert answers == [sent]


def test_a_line_without_end_is_refused(ends, monkeypatch) -> None:
    monkeypatch.setattr(wire_channel, "MAX_LINE_BYTES", 100_000)
    channel, peer = ends
    peer.sendall(b"x" * 170_000)
    with pytest.raises(WireError, match="longer than 100000"):
        channel.receive(PATIENCE_S)


NONSENSE = [
    b"hello",
    b"",
    b"[]",
    b"3",
    b"null",
    b"{",
    b'{"a":1}}',
    b"\xff\xfe",
    b"[" * 100_000,
    b'{"n":' + b"9" * 5000 + b"}",
    b'{"n":[' + b"9" * 25 + b"]}",
    b'{"reason":"\\ud800"}',
]


@pytest.mark.parametrize("line", NONSENSE, ids=range(len(NONSENSE)))
def test_nonsense_is_refused(ends, line) -> None:
    channel, peer = ends
    peer.sendall(line + b"\n")
    with pytest.raises(WireError):
        channel.receive(PATIENCE_S)


def test_text_that_is_no_unicode_crosses_as_a_question_mark(ends) -> None:
    """A solution may raise with such a message; it must reach files and terminals as text."""
    channel, peer = ends
    channel.send({"reason": "a\ud800b"})
    assert Channel(peer).receive(PATIENCE_S) == {"reason": "a?b"}


def test_a_number_that_is_none_is_not_sent(ends) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        ends[0].send({"x": math.nan})


def test_a_peer_that_is_gone(ends) -> None:
    channel, peer = ends
    peer.sendall(b'{"unfinished"')
    peer.close()
    with pytest.raises(PeerGoneError):
        channel.receive(PATIENCE_S)
    with pytest.raises(PeerGoneError):
        channel.send({"x": "y" * 1_000_000})


# --- deadlines -----------------------------------------------------------------


def test_silence_ends_at_the_deadline(ends) -> None:
    started = time.monotonic()
    with pytest.raises(DeadlineError):
        ends[0].receive(0.1)
    assert 0.1 <= time.monotonic() - started < PATIENCE_S


def test_a_trickle_does_not_extend_the_deadline(ends) -> None:
    channel, peer = ends
    over = threading.Event()

    def trickle() -> None:
        while not over.wait(0.02):
            peer.send(b" ")

    thread = threading.Thread(target=trickle)
    thread.start()
    started = time.monotonic()
    try:
        with pytest.raises(DeadlineError):
            channel.receive(0.2)
    finally:
        over.set()
        thread.join()
    assert time.monotonic() - started < PATIENCE_S


# --- descriptors ---------------------------------------------------------------


def test_descriptors_come_with_their_message(ends) -> None:
    channel, peer = ends
    read_end, write_end = os.pipe()
    channel.send({"n": 1}, [write_end])
    fds: list[int] = []
    assert Channel(peer).receive(PATIENCE_S, fds) == {"n": 1}
    os.write(fds[0], b"through")
    assert os.read(read_end, 7) == b"through"
    for fd in (read_end, write_end, *fds):
        os.close(fd)


def test_a_judge_takes_no_descriptors(ends) -> None:
    """A worker that sends some fills nobody's table with them."""
    channel, peer = ends
    before = len(list(Path("/proc/self/fd").iterdir()))
    read_end, write_end = os.pipe()
    socket.send_fds(peer, [b'{"n":1}\n'], [write_end] * 8)
    os.close(write_end)
    assert channel.receive(PATIENCE_S) == {"n": 1}
    assert len(list(Path("/proc/self/fd").iterdir())) == before + 1
    assert os.read(read_end, 1) == b"", "no copy of the other end is left anywhere"
    os.close(read_end)


# --- fields --------------------------------------------------------------------


@pytest.mark.parametrize("forged", [None, True, 1.0, "1", [1], -1, 1 << 63, 10**400])
def test_forged_times_are_refused(forged) -> None:
    message = {"event_ns": forged}
    with pytest.raises(WireError, match="event_ns"):
        wire_channel.field(json.loads(json.dumps(message)), "event_ns", int, minimum=0)


def test_honest_times_are_taken() -> None:
    assert wire_channel.field({"event_ns": 0}, "event_ns", int, minimum=0) == 0
    assert wire_channel.field({"event_ns": (1 << 63) - 1}, "event_ns", int, minimum=0) == (1 << 63) - 1


def test_a_list_has_the_length_that_was_asked_for() -> None:
    assert wire_channel.list_of({"outputs": [1, 2]}, "outputs", 2) == [1, 2]
    for forged in ({}, {"outputs": [1]}, {"outputs": "ab"}, {"outputs": {"0": 1, "1": 2}}):
        with pytest.raises(WireError, match="outputs"):
            wire_channel.list_of(forged, "outputs", 2)


# --- trees ---------------------------------------------------------------------

leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.complex_numbers()
    | st.text()
    | st.sampled_from([torch.float16, torch.int8, torch.device("cpu"), torch.device("cuda", 1)])
)
keys = st.text() | st.integers() | st.booleans() | st.none() | st.tuples(st.integers(), st.text())
trees = st.recursive(
    leaves,
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)


def shown(value) -> str:
    """Types, order, signed zeros and NaN all count."""
    return repr(value)


@settings(deadline=None)
@given(trees)
def test_a_tree_survives_the_wire(value) -> None:
    encoded = wire_channel.encode_tree(value, lambda _: None)
    over_the_wire = json.loads(json.dumps(encoded, allow_nan=False))
    assert shown(wire_channel.decode_tree(over_the_wire, [], torch)) == shown(value)


class Span(NamedTuple):
    low: float
    high: tuple[int, int]


def test_a_named_tuple_keeps_its_names_on_the_wire() -> None:
    tree = json.loads(json.dumps(wire_channel.encode_tree([Span(0.5, (1, 2))], lambda _: None)))
    (found,) = wire_channel.decode_tree(tree, [])
    assert repr(found) == "Span(low=0.5, high=(1, 2))"
    assert type(found) is type(wire_channel.decode_tree(tree, [])[0])
    assert (found.low, *found.high) == (0.5, 1, 2)


@pytest.mark.parametrize(
    ("value", "told"),
    [(numpy.float32(0.1), float(numpy.float32(0.1))), (numpy.prod((3, 4)), 12), (numpy.float64(2), 2.0)],
)
def test_a_number_of_numpy_arrives_as_one_of_python(value, told) -> None:
    found = wire_channel.decode_tree(wire_channel.encode_tree(value, lambda _: None), [])
    assert (type(found), found) == (type(told), told)


def test_tensors_are_numbers_in_a_tree() -> None:
    first, second = torch.zeros(2), torch.ones(3)
    found: list[torch.Tensor] = []

    def number(value) -> int | None:
        if not isinstance(value, torch.Tensor):
            return None
        found.append(value)
        return len(found) - 1

    tree = wire_channel.encode_tree({"x": [first, 3], "y": (second,)}, number)
    assert len(json.dumps(tree)) < 200
    value = wire_channel.decode_tree(tree, found)
    assert value["x"][0] is first
    assert value["y"] == (second,)


@pytest.mark.parametrize("leaf", [object(), {1, 2}, b"bytes", print], ids=["object", "set", "bytes", "print"])
def test_what_has_no_place_in_json_is_named(leaf) -> None:
    with pytest.raises(TypeError, match=type(leaf).__name__):
        wire_channel.encode_tree([leaf], lambda _: None)


@pytest.mark.parametrize("tree", [None, [], {}, {"v": 1, "i": "2"}, {"pickle": "x"}, {"l": [{"?": 0}]}])
def test_what_is_no_tree_is_refused(tree) -> None:
    with pytest.raises(WireError):
        wire_channel.decode_tree(tree, [])


@dataclass
class Named:
    first: Any
    second: Any


@dataclass
class Both(dict):
    def __init__(self, **items: Any):
        dict.__init__(self, **items)


def test_flatten_looks_into_dataclasses() -> None:
    found = wire_channel.flatten(Named(first=1, second=[Named(first=2, second=None)]))
    assert found == [("output.first", 1), ("output.second[0].first", 2), ("output.second[0].second", None)]
    assert wire_channel.flatten(Both(q=3)) == [("output['q']", 3)], "a dictionary that is a dataclass too is its items"
    assert wire_channel.flatten(Named) == [("output", Named)], "the class itself is a leaf"


def test_flatten_names_every_leaf() -> None:
    value = {"b": [1, (None, 2)], "a": 3}
    assert wire_channel.flatten(value) == [
        ("output['a']", 3),
        ("output['b'][0]", 1),
        ("output['b'][1][0]", None),
        ("output['b'][1][1]", 2),
    ]
    assert wire_channel.flatten({"a": 1, "b": 2}) == wire_channel.flatten({"b": 2, "a": 1})
    assert wire_channel.flatten(7) == [("output", 7)]


def test_a_strangers_words_move_no_cursor():
    assert printable("\x1b[2J\x07 ::error::\x00 \u202e") == "\\x1b[2J\\x07 ::error::\\x00 \\x202e"
    assert printable("plain, µs ± 1\nand more") == "plain, µs ± 1\nand more"
    assert ChildError(Status.RAISED, "A\x1b[2J: x").reason == "A\\x1b[2J: x"


def test_a_long_text_keeps_what_it_begins_and_ends_with():
    text = "the first error" + "x" * 100_000 + "the exception"
    short = wire_channel.both_ends(text)
    assert short.startswith("the first error")
    assert short.endswith("the exception")
    assert "[60028 characters left out]" in short
    assert wire_channel.both_ends("as it is") == "as it is"
