"""The system-call filter: its assembled program against its rules, on machines that are not this one too."""

import os
import platform
import socket

import pytest

from kbench.sandbox import seccomp


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_answers_as_its_rules_say(machine):
    """The assembled program, run by a small interpreter."""
    rules = seccomp.rules(allow_exec=False, signals=False, others=False, truncate=False)
    program = list(seccomp.assemble(rules, machine))
    audit, column = seccomp.MACHINES[machine]
    assert len(program) < 4096
    numbers = {}
    for entry in (seccomp.NEVER + seccomp.PRETENDED + seccomp.CONDITIONAL).split():
        fields = entry.split(":")
        if fields[column] != "-":
            numbers[fields[0]] = int(fields[column])

    def answer(call, *arguments, arch=audit):
        number = numbers.get(call, 0) if isinstance(call, str) else call
        return evaluate(program, number, arch, arguments)

    assert answer("ptrace") == seccomp.FAIL
    assert answer("fchmod") == seccomp.PRETEND
    assert answer("socket", socket.AF_INET, socket.SOCK_STREAM) == seccomp.FAIL
    assert answer("socket", socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) == seccomp.FAIL
    assert answer("socket", socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) == seccomp.ALLOW
    assert answer("clone3") == seccomp.MISSING
    assert answer("clone", 0x3D0F00) == seccomp.ALLOW  # a thread, as libc makes it
    assert answer("clone", 0x1200011) == seccomp.FAIL  # a process
    assert answer("clone", 0x10010000) == seccomp.FAIL  # a thread with a user namespace
    assert answer("kill", os.getpid(), 9) == seccomp.ALLOW
    assert answer("kill", os.getpid() + 1, 9) == seccomp.FAIL
    assert answer("prlimit64", 0) == seccomp.ALLOW
    assert answer("ioctl", 3, seccomp.FIOSETOWN) == seccomp.FAIL
    assert answer("ioctl", 3, 0x5401) == seccomp.ALLOW
    assert answer(9999) == seccomp.ALLOW
    assert answer(seccomp.X32_CALLS | 41) == seccomp.MISSING
    assert answer("socket", socket.AF_UNIX, socket.SOCK_STREAM, arch=0x40000003) == seccomp.FAIL


@pytest.mark.parametrize(("connect", "answer"), [(False, seccomp.FAIL), (True, seccomp.ALLOW)])
def test_connections_are_closed_to_all_but_the_tool_that_needs_them(connect, answer):
    rules = seccomp.rules(allow_exec=True, signals=True, others=True, truncate=True, connect=connect)
    program = list(seccomp.assemble(rules, "x86_64"))
    audit, _ = seccomp.MACHINES["x86_64"]
    assert evaluate(program, 42, audit, ()) == answer
    assert evaluate(program, 101, audit, ()) == seccomp.FAIL  # ptrace, all the same


@pytest.mark.parametrize(
    ("call", "arguments"), [("prlimit64", ()), ("sched_setaffinity", ()), ("setpriority", (0,)), ("ioprio_set", (1,))]
)
def test_only_the_process_itself_or_all_but_the_leader_of_its_namespaces_can_be_limited(call, arguments):
    audit, column = seccomp.MACHINES["x86_64"]
    number = next(int(entry.split(":")[column]) for entry in seccomp.CONDITIONAL.split() if entry.startswith(call))
    for others, allowed in ((False, [True, False, False]), (True, [True, False, True])):
        rules = seccomp.rules(allow_exec=True, signals=True, others=others, truncate=True)
        program = list(seccomp.assemble(rules, "x86_64"))
        answers = [evaluate(program, number, audit, (*arguments, process)) for process in (0, 1, 77)]
        assert [answer == seccomp.ALLOW for answer in answers] == allowed


def evaluate(program, number, arch, arguments):
    """Run a classic BPF program over one call."""
    memory = {0: number, 4: arch} | {16 + 8 * i: a & 0xFFFFFFFF for i, a in enumerate((*arguments, *[0] * 6)[:6])}
    accumulator, position = 0, 0
    while True:
        operation, if_true, if_false, constant = program[position]
        position += 1
        if operation == seccomp.LOAD:
            accumulator = memory[constant]
        elif operation == seccomp.AND:
            accumulator &= constant
        elif operation == seccomp.EQUAL:
            position += if_true if accumulator == constant else if_false
        elif operation == seccomp.AT_LEAST:
            position += if_true if accumulator >= constant else if_false
        else:
            return constant


def test_this_machine_filters_calls():
    assert seccomp.supported() == (platform.machine() in seccomp.MACHINES)
