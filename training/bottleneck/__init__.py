"""Where the time of training goes: a clock for the phases of a step, a report with advice, and the profiler's table."""
