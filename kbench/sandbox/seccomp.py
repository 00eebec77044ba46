"""A system-call filter for untrusted processes: closes what Landlock and rlimits leave open.

Closed are network sockets (UDP, raw and netlink too), connections to local services, tracing of other
processes, io_uring, BPF, mounts, namespaces, keys, System V IPC and clocks. Changes of file modes, owners and
times pretend to succeed, because honest tools copy them along and do not care. A classic BPF program,
installed with prctl(2), for x86-64 and 64-bit Arm.
"""

import ctypes
import errno
import os
import platform
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kbench.sandbox import libc

PR_SET_SECCOMP = 22
SECCOMP_MODE_FILTER = 2
ALLOW = 0x7FFF0000
FAIL = 0x00050000 | errno.EPERM
MISSING = 0x00050000 | errno.ENOSYS
PRETEND = 0x00050000

CLONE_THREAD = 0x00010000
CLONE_NEW_ANYTHING = 0x7E020000
SOCKET_TYPE_BITS = 0xF
F_SETOWN, F_SETOWN_EX = 8, 15
FIOSETOWN, SIOCSPGRP = 0x8901, 0x8902
PRIO_PROCESS, IOPRIO_WHO_PROCESS = 0, 1
X32_CALLS = 0x40000000
ALL_BITS = 0xFFFFFFFF

# name:number on x86-64:number on 64-bit Arm
NEVER = """
    ptrace:101:117 process_vm_readv:310:270 process_vm_writev:311:271 process_madvise:440:440 kcmp:312:272
    pidfd_getfd:438:438 perf_event_open:298:241 userfaultfd:323:282 bpf:321:280 io_uring_setup:425:425
    io_uring_enter:426:426 io_uring_register:427:427 add_key:248:217 request_key:249:218 keyctl:250:219
    kexec_load:246:104 kexec_file_load:320:294 init_module:175:105 finit_module:313:273
    delete_module:176:106 open_by_handle_at:304:265 fanotify_init:300:262 reboot:169:142 swapon:167:224
    swapoff:168:225 acct:163:89 settimeofday:164:170 clock_settime:227:112 clock_adjtime:305:266
    adjtimex:159:171 mount:165:40 umount2:166:39 pivot_root:155:41 chroot:161:51 move_mount:429:429
    open_tree:428:428 fsopen:430:430 fsconfig:431:431 fsmount:432:432 fspick:433:433 mount_setattr:442:442
    unshare:272:97 setns:308:268 connect:42:203 shmget:29:194 shmat:30:196 shmctl:31:195 msgget:68:186
    semget:64:190 mq_open:240:180
"""
PRETENDED = """
    chmod:90:- fchmod:91:52 fchmodat:268:53 fchmodat2:452:452 chown:92:- fchown:93:55 lchown:94:-
    fchownat:260:54 utime:132:- utimes:235:- utimensat:280:88 futimesat:261:- setxattr:188:5
    lsetxattr:189:6 fsetxattr:190:7 setxattrat:463:463 removexattr:197:14 lremovexattr:198:15
    fremovexattr:199:16 removexattrat:466:466
"""
CONDITIONAL = """
    socket:41:198 socketpair:53:199 clone:56:220 clone3:435:435 fork:57:- vfork:58:- execve:59:221
    execveat:322:281 kill:62:129 tkill:200:130 tgkill:234:131 rt_sigqueueinfo:129:138
    rt_tgsigqueueinfo:297:240 pidfd_send_signal:424:424 fcntl:72:25 ioctl:16:29 prlimit64:302:261
    sched_setaffinity:203:122 sched_setparam:142:118 sched_setscheduler:144:119 sched_setattr:314:274
    setpriority:141:140 ioprio_set:251:30 migrate_pages:256:238 move_pages:279:239 truncate:76:45
"""

# Machine name -> (AUDIT_ARCH_*, column in the tables above).
MACHINES = {"x86_64": (0xC000003E, 1), "aarch64": (0xC00000B7, 2)}

LOAD, AND, EQUAL, AT_LEAST, RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
OFFSET_CALL, OFFSET_MACHINE, OFFSET_ARGUMENTS = 0, 4, 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Answer a call with `answer`; with an argument, only where (argument & mask) == value is `when`."""

    call: str
    answer: int = FAIL
    argument: int | None = None
    mask: int = ALL_BITS
    value: int = 0
    when: bool = True


def supported() -> bool:
    """Return whether this machine's calls are known here and its kernel filters calls."""
    return platform.machine() in MACHINES and Path("/proc/sys/kernel/seccomp").exists()


def install(*, allow_exec: bool, signals: bool, others: bool, truncate: bool, connect: bool = False) -> None:
    """Filter the system calls of this thread and all that it starts, until they end. The caller has set no_new_privs.

    Denied are: without `allow_exec` new programs and processes (threads stay); without `signals` signals to any process
    but this one; without `others` changes of other processes' priorities and limits, and with them those of process 1,
    which leads the namespaces; without `truncate` the call of that name, which early versions of Landlock overlook;
    without `connect` connections to local sockets. Raises OSError.
    """
    chosen = rules(allow_exec=allow_exec, signals=signals, others=others, truncate=truncate, connect=connect)
    instructions = list(assemble(chosen, platform.machine()))
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in instructions)
    buffer = ctypes.create_string_buffer(code, len(code))

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))

    program = Program(len(instructions), ctypes.addressof(buffer))
    filtered = ctypes.c_ulong(SECCOMP_MODE_FILTER), ctypes.byref(program)
    libc.call("prctl", PR_SET_SECCOMP, *filtered, 0, 0, called="seccomp")


def rules(*, allow_exec: bool, signals: bool, others: bool, truncate: bool, connect: bool = False) -> list[Rule]:
    """Return the rules in the order in which they apply; a call that matches none is allowed."""
    never = [entry.split(":")[0] for entry in NEVER.split()]
    chosen = [Rule(call=call) for call in never if not (connect and call == "connect")]
    chosen += [Rule(call=entry.split(":")[0], answer=PRETEND) for entry in PRETENDED.split()]
    for call in ("socket", "socketpair"):
        # Local streams only: a datagram can be addressed to any service that listens, without connect(2).
        chosen.append(Rule(call=call, argument=0, value=socket.AF_UNIX, when=False))
        chosen.append(Rule(call=call, argument=1, mask=SOCKET_TYPE_BITS, value=socket.SOCK_DGRAM))
    # The flags of clone3 lie in memory, where a filter cannot look; libc then falls back to clone.
    chosen.append(Rule(call="clone3", answer=MISSING))
    chosen.append(Rule(call="clone", argument=0, mask=CLONE_NEW_ANYTHING, when=False))
    if not allow_exec:
        chosen += [Rule(call=call) for call in ("execve", "execveat", "fork", "vfork")]
        chosen.append(Rule(call="clone", argument=0, mask=CLONE_THREAD))
    if not truncate:
        chosen.append(Rule(call="truncate"))
    if not signals:
        chosen += _signals_to(os.getpid())
    chosen += _no_changes_of(1, when=True) if others else _no_changes_of(0, when=False)
    return chosen


def _signals_to(own: int) -> Iterator[Rule]:
    for call in ("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo"):
        yield Rule(call=call, argument=0, value=own, when=False)
    yield Rule(call="pidfd_send_signal")
    for call, values in (("fcntl", (F_SETOWN, F_SETOWN_EX)), ("ioctl", (FIOSETOWN, SIOCSPGRP))):
        for value in values:
            yield Rule(call=call, argument=1, value=value)


def _no_changes_of(process: int, *, when: bool) -> Iterator[Rule]:
    """Deny changes of one process's priority and limits, or, if `when` is False, of all but one; 0 is the caller."""
    scheduling = ("sched_setaffinity", "sched_setparam", "sched_setscheduler", "sched_setattr")
    for call in ("prlimit64", "migrate_pages", "move_pages", *scheduling):
        yield Rule(call=call, argument=0, value=process, when=when)
    for call, kind in (("setpriority", PRIO_PROCESS), ("ioprio_set", IOPRIO_WHO_PROCESS)):
        yield Rule(call=call, argument=0, value=kind, when=False)
        yield Rule(call=call, argument=1, value=process, when=when)


def assemble(chosen: list[Rule], machine: str) -> Iterator[tuple[int, int, int, int]]:
    """Yield the program as (operation, jump if true, jump if false, constant)."""
    audit, column = MACHINES[machine]
    numbers = {}
    for entry in (NEVER + PRETENDED + CONDITIONAL).split():
        fields = entry.split(":")
        if fields[column] != "-":
            numbers[fields[0]] = int(fields[column])
    yield LOAD, 0, 0, OFFSET_MACHINE
    yield EQUAL, 1, 0, audit
    yield RETURN, 0, 0, FAIL
    yield LOAD, 0, 0, OFFSET_CALL
    yield AT_LEAST, 0, 1, X32_CALLS
    yield RETURN, 0, 0, MISSING
    for rule in chosen:
        if rule.call in numbers:
            yield from _assemble(rule, numbers[rule.call])
    yield RETURN, 0, 0, ALLOW


def _assemble(rule: Rule, number: int) -> Iterator[tuple[int, int, int, int]]:
    if rule.argument is None:
        yield EQUAL, 0, 1, number
        yield RETURN, 0, 0, rule.answer
        return
    yield EQUAL, 0, 5, number
    # The low half of a 64-bit argument: both machines are little-endian.
    yield LOAD, 0, 0, OFFSET_ARGUMENTS + 8 * rule.argument
    yield AND, 0, 0, rule.mask
    yield EQUAL, *((0, 1) if rule.when else (1, 0)), rule.value
    yield RETURN, 0, 0, rule.answer
    yield LOAD, 0, 0, OFFSET_CALL
