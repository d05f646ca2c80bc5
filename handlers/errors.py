"""What can be wrong with one request, and the HTTP status that says so.

    RequestError                400  the base: anything the client can put right
    ├── MalformedRequest        400  the bytes are not what they claim to be
    ├── TooLarge                413  more bytes, pixels or instances than the limits allow
    ├── UnsupportedMedia        415  a media type or image format that the model does not read
    ├── UnprocessableInstance   422  well-formed, but there is nothing to predict from
    ├── NotSupported            501  the archive does not do that
    └── Overloaded              503  the batch took so long that this instance was not begun

`ServerFault` (500) is ours: the client learns that it happened, never why.
"""

from __future__ import annotations

from typing import ClassVar


class RequestError(Exception):
    """A fault of one request; its message is shown to the client, so it must never quote the request's content."""

    status: ClassVar[int] = 400
    type: ClassVar[str] = "bad_request"

    def body(self, request_id: str) -> dict[str, object]:
        """The JSON object that answers the request."""
        return {
            "error": {
                "code": self.status,
                "type": self.type,
                "message": str(self),
                "request_id": request_id,
            }
        }


class MalformedRequest(RequestError):
    """The body is not valid JSON, UTF-8, base64 or image data."""

    type = "malformed"


class TooLarge(RequestError):
    """A limit of settings.py is passed."""

    status = 413
    type = "too_large"


class UnsupportedMedia(RequestError):
    """A media type or an image format that the handler does not read."""

    status = 415
    type = "unsupported_media"


class UnprocessableInstance(RequestError):
    """Well-formed, but empty, blank or of the wrong JSON type."""

    status = 422
    type = "unprocessable"


class NotSupported(RequestError):
    """Nothing that the client could put right: another archive would do it."""

    status = 501
    type = "not_supported"


class Overloaded(RequestError):
    """Answered before TorchServe would end the worker, and the whole batch with it."""

    status = 503
    type = "overloaded"

    def __init__(self) -> None:
        super().__init__("The server had no time left for this instance. Send fewer at once, or try again.")


class ServerFault(RequestError):
    """An unexpected exception of ours; the details are in the worker's log."""

    status = 500
    type = "internal"

    def __init__(self) -> None:
        super().__init__("The model could not answer this request. The server's log has the reason.")
