"""Speed beside others: `python -m benchmarks`. Servers are started, asked in rounds, and compared."""
