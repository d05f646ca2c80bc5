"""What all tests need of their own process."""

import signal

# A shell lets what it runs in the background ignore a terminal's signals, which children inherit; some tests send them.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
