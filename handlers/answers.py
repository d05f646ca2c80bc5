"""What became of a request's instances -> its response, in the form that the request asked in."""

from __future__ import annotations

from collections.abc import Sequence

from handlers.errors import RequestError
from handlers.kserve import V2Answer
from handlers.requests import Items, Lines, Request
from handlers.responses import Response
from handlers.settings import Settings


def answer(request: Request, found: Items, values: Sequence[object], settings: Settings) -> Response:
    """The answer of `values`: for each instance its JSON value, or the RequestError in its place.

    A list's status is 200 whatever is in it. Raises the RequestError of a request's single instance, ResponseTooLarge,
    and what json.dumps raises for a value that is not JSON.
    """
    for value in values:
        if isinstance(value, RequestError) and not found.many:
            raise value
    bodies = [value.body(request.request_id) if isinstance(value, RequestError) else value for value in values]
    if isinstance(found.envelope, Lines):
        return Response.lines(bodies)
    return Response.ok(_wrapped(bodies, found, settings) if found.many else bodies[0])


def refuse(request: Request, found: Items, error: RequestError, settings: Settings) -> Response:
    """The answer to a request that is refused as a whole, with the error's status."""
    body = error.body(request.request_id)
    if isinstance(found.envelope, V2Answer) and found.envelope.grpc:
        return Response.error(error.status, found.envelope.wrap([body], settings.name, settings.version))
    return Response.error(error.status, body)


def _wrapped(bodies: list[object], found: Items, settings: Settings) -> object:
    if isinstance(found.envelope, V2Answer):
        return found.envelope.wrap(bodies, settings.name, settings.version)
    return bodies if found.envelope is None else {found.envelope: bodies}
