"""What all tests need of their own process."""

import signal

# A shell lets what it runs in the background ignore Ctrl-C, and every child inherits that; some tests press it.
signal.signal(signal.SIGINT, signal.default_int_handler)
