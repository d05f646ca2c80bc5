"""Results that nobody measured, of the form of a run's."""

from typing import Any


def figure(median: float) -> dict[str, Any]:
    return {"median": median, "min": median * 0.9, "max": median * 1.1, "rounds": [median * 0.9, median, median * 1.1]}


def speeds(per_second: float, p50_ms: float) -> dict[str, Any]:
    latency = {"p50": figure(p50_ms), "p95": figure(2 * p50_ms), "p99": figure(3 * p50_ms)}
    point = {"p50": p50_ms, "p90": p50_ms, "p95": 2 * p50_ms, "p99": 3 * p50_ms, "max": 4 * p50_ms, "count": 9.0}
    return {
        "closed": {
            "1": {"per_second": figure(per_second / 2), "latency_ms": latency, "failed": 0},
            "32": {"per_second": figure(per_second), "latency_ms": latency, "failed": 0},
        },
        "open": [{"load": 0.5, "rate": per_second / 2, "failed": 0, "latency_ms": point}],
        "agreement": {"compared": 100, "share": 1.0, "worst_score": 1e-4, "ok": True},
    }


def facts(title: str, seconds: float, size: int) -> dict[str, Any]:
    memory = {"pss": size, "uss": size}
    return {
        "title": title,
        "versions": {"python": "3.11.7"},
        "pack_s": seconds,
        "archive_bytes": size,
        "start_s": figure(2 * seconds),
        "worker_s": figure(seconds),
        "memory": {"one_worker": memory, "further_worker": memory},
    }


ACCURACY = {"precision": "int8", "inputs": 128, "label_agreement": 0.996, "max_probability_change": 0.03}

RESULTS: dict[str, Any] = {
    "format": 1,
    "command": "python -m benchmarks --quick",
    "machine": {
        "cpu": "A processor",
        "architecture": "x86_64",
        "cores": 2,
        "memory_bytes": 10**10,
        "features": ["avx2"],
        "kernel": "6",
        "governor": "unknown",
        "load_average": {"start": 0.1, "end": 2.0},
    },
    "versions": {"python": "3.11.7", "torch": "2.13.0"},
    "settings": {"threads": 2, "batch_size": 16, "delay_ms": 5, "rounds": 3, "seconds": 20.0},
    "limit": {"fp32": 1e11, "int8": 2e11},
    "tasks": {
        "sentiment": {
            "subjects": {
                "marsmith": facts("Marsmith", 4, 10**8),
                "marsmith:int8": {**facts("Marsmith, int8", 5, 10**8), "accuracy": ACCURACY},
                "B1": facts("a careful handler", 10, 8 * 10**8),
            },
            "skipped": {"B4": "B4 is not installed."},
            "sets": {
                "tweets": {
                    "flops": 5e9,
                    "subjects": {
                        "marsmith": speeds(30, 40),
                        "marsmith:int8": speeds(50, 20),
                        "B1": speeds(10, 120),
                        "B5": {"in_process": {"per_second": figure(12)}},
                    },
                }
            },
        }
    },
}
