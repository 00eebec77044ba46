"""What Prometheus reads of a server."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

SECONDS = (0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000)


class Metrics:
    """Counters and times of one server, in a registry of their own."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        self.answers = Counter(
            "kbench_answers", "Tasks that have their answer", ["status", "verdict"], registry=registry
        )
        self.refused = Counter("kbench_refused", "Tasks that the queue had no room for", registry=registry)
        self.pending = Gauge("kbench_pending", "Tasks that nobody has begun", registry=registry)
        self.processing = Gauge("kbench_processing", "Tasks that the pool has", registry=registry)
        self.queue_seconds = Histogram(
            "kbench_queue_seconds", "From acceptance to the beginning", buckets=SECONDS, registry=registry
        )
        self.execution_seconds = Histogram(
            "kbench_execution_seconds", "From the beginning to the answer", buckets=SECONDS, registry=registry
        )
