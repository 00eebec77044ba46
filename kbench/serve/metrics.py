"""Metrics of a server for Prometheus."""

import functools

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

SECONDS = (0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000)


class Metrics:
    """Counters and times of one server, in their own registry."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        self.answers = Counter("kbench_answers", "Answered tasks", ["status", "verdict"], registry=registry)
        self.refused = Counter("kbench_refused", "Tasks refused by a full queue", registry=registry)
        self.pending = Gauge("kbench_pending", "Tasks that wait", registry=registry)
        self.processing = Gauge("kbench_processing", "Tasks in the pool", registry=registry)
        seconds = functools.partial(Histogram, buckets=SECONDS, registry=registry)
        self.queue_seconds = seconds("kbench_queue_seconds", "Time from acceptance to start")
        self.execution_seconds = seconds("kbench_execution_seconds", "Time from start to answer")
