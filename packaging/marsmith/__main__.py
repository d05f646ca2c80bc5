"""`python -m marsmith`."""

from marsmith.cli import main

main()
