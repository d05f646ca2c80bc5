"""The port that SageMaker asks on a multi-model endpoint: a model is verified before TorchServe hears of it.

TorchServe itself would start a worker in a directory that nobody has looked at, with the directory on Python's path;
and whoever reaches its management API may name any handler. So TorchServe listens on loopback alone, and this is what
listens for SageMaker (docs.aws.amazon.com/sagemaker, "Build Your Own Container for Multi-Model Endpoints"):

| request                    | answer                                                                              |
|----------------------------|-------------------------------------------------------------------------------------|
| POST /models               | the model at `url` is copied, verified and loaded as `model_name`; 409 if it is there |
| GET /models, /models/NAME  | what is loaded                                                                      |
| DELETE /models/NAME        | the model is unloaded and its copy removed                                          |
| POST /models/NAME/invoke   | the model's answer                                                                  |
| GET /ping                  | whether the server is well                                                          |
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp
from aiohttp import web

from marsmith.container.admission import admit_tree, dismiss
from marsmith.container.settings import ANYWHERE, Settings
from marsmith.errors import ContainerError, MarsmithError
from marsmith.ground.untrusted import json_value, mapping
from marsmith.ground.values import NAME_PATTERN

# A name and a path.
MAX_LOAD_BYTES = 16 << 10
# More than TorchServe's own queue has places for.
CONNECTIONS = 1024
CONNECT_TIMEOUT_S = 5
# TorchServe waits as long as it takes, and has time-outs of its own.
NO_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S)
START_TIMEOUT_S = 10
# Answers that are under way when the server has ended.
STOP_TIMEOUT_S = 2
# Of one connection alone (RFC 9110, 7.6.1), and what aiohttp writes itself.
OWN_HEADERS = frozenset(
    {"connection", "expect", "host", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"}
)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Gate:
    """Serves while it is entered, in a thread of its own. Raises ContainerError where the port cannot be had."""

    def __init__(self, settings: Settings, say: Callable[[str], None]) -> None:
        self._settings = settings
        self._say = say
        self._sources: dict[str, str] = {}
        self._busy: set[str] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="gate", daemon=True)
        self._runner: web.AppRunner | None = None
        self._session: aiohttp.ClientSession | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(START_TIMEOUT_S)
        except OSError as error:
            self.__exit__(None, None, None)
            raise ContainerError(f"Port {self._settings.port} cannot be used: {error.strerror or error}.") from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(STOP_TIMEOUT_S * 2)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _start(self) -> None:
        app = web.Application(middlewares=[_explained], client_max_size=MAX_LOAD_BYTES)
        app.add_routes(
            [
                web.get("/ping", self._ping),
                web.post("/models", self._load),
                web.get("/models", self._list),
                web.get("/models/{name}", self._describe),
                web.delete("/models/{name}", self._unload),
                web.post("/models/{name}/invoke", self._invoke),
            ]
        )
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=CONNECTIONS), timeout=NO_TIMEOUT, auto_decompress=False
        )
        # Bodies pass through as they are; a request is logged by TorchServe, without its query.
        self._runner = web.AppRunner(
            app, access_log=None, auto_decompress=False, handler_cancellation=True, shutdown_timeout=STOP_TIMEOUT_S
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, ANYWHERE, self._settings.port).start()

    async def _stop(self) -> None:
        if self._runner:
            await self._runner.cleanup()
        if self._session:
            await self._session.close()

    async def _load(self, request: web.Request) -> web.StreamResponse:
        name, url = await _named(request)
        if name in self._sources or name in self._busy:
            return _refusal(HTTPStatus.CONFLICT, f"Model {name} is already loaded.")
        # Who asked may go away: a model is loaded wholly or not at all.
        return await asyncio.shield(self._loop.create_task(self._admit(name, url)))

    async def _admit(self, name: str, url: str) -> web.StreamResponse:
        self._busy.add(name)
        loaded = False
        try:
            await asyncio.to_thread(admit_tree, Path(url), self._settings, name)
            # The model's own configuration says how many workers it has, and how long they may take.
            asked = {"model_name": name, "url": name, "initial_workers": "1", "synchronous": "true"}
            answer = await self._management("POST", "/models", params=asked)
            loaded = answer.status == HTTPStatus.OK
        except MarsmithError as error:
            self._say(f"error: {error}")
            return _refusal(HTTPStatus.FAILED_DEPENDENCY, str(error))
        finally:
            if loaded:
                self._sources[name] = url
            else:
                await self._forget(name)
            self._busy.discard(name)
        return answer

    async def _forget(self, name: str) -> None:
        with suppress(aiohttp.ClientError):
            await self._management("DELETE", f"/models/{name}")
        await asyncio.to_thread(dismiss, name, self._settings)

    async def _unload(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        if name not in self._sources or name in self._busy:
            return _refusal(HTTPStatus.NOT_FOUND, f"Model {name} is not loaded.")
        return await asyncio.shield(self._loop.create_task(self._dismiss(name)))

    async def _dismiss(self, name: str) -> web.StreamResponse:
        self._busy.add(name)
        try:
            answer = await self._management("DELETE", f"/models/{name}")
            if answer.status in (HTTPStatus.OK, HTTPStatus.NOT_FOUND):
                del self._sources[name]
                await asyncio.to_thread(dismiss, name, self._settings)
            return answer
        finally:
            self._busy.discard(name)

    async def _list(self, _request: web.Request) -> web.StreamResponse:
        models = [{"modelName": name, "modelUrl": url} for name, url in self._sources.items()]
        return web.json_response({"models": models})

    async def _describe(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        if name not in self._sources:
            return _refusal(HTTPStatus.NOT_FOUND, f"Model {name} is not loaded.")
        return web.json_response({"modelName": name, "modelUrl": self._sources[name]})

    async def _management(self, method: str, path: str, params: dict[str, str] | None = None) -> web.Response:
        return await self._ask(method, f"{self._settings.ports.management_url}{path}", params=params)

    async def _ask(self, method: str, url: str, **asked: Any) -> web.Response:
        """TorchServe's answer, whole: it has at most `max_response_size` bytes."""
        assert self._session is not None  # noqa: S101 - it was started
        async with self._session.request(method, url, allow_redirects=False, **asked) as answer:
            return web.Response(status=answer.status, body=await answer.read(), headers=_passed_on(answer.headers))

    async def _invoke(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        if name not in self._sources:
            return _refusal(HTTPStatus.NOT_FOUND, f"Model {name} is not loaded.")
        return await self._predictions(request, f"/models/{name}/invoke")

    async def _ping(self, request: web.Request) -> web.StreamResponse:
        return await self._predictions(request, "/ping")

    async def _predictions(self, request: web.Request, path: str) -> web.StreamResponse:
        body = request.content if request.can_read_body else None
        headers = _passed_on(request.headers)
        return await self._ask(request.method, f"{self._settings.ports.url}{path}", data=body, headers=headers)


async def _named(request: web.Request) -> tuple[str, str]:
    """The name and the directory of the model to load; nothing else that TorchServe would take is passed on."""
    asked = mapping(json_value(await request.read()))
    name, url = asked.get("model_name"), asked.get("url")
    if not isinstance(name, str) or not re.fullmatch(NAME_PATTERN, name):
        raise web.HTTPBadRequest(text="The body must be a JSON object whose model_name TorchServe can route.")
    if not isinstance(url, str) or "\0" in url or not Path(url).is_absolute():
        raise web.HTTPBadRequest(text="The url must be the absolute path of the model's directory.")
    return name, url


def _passed_on(headers: Any) -> list[tuple[str, str]]:
    return [(name, value) for name, value in headers.items() if name.lower() not in OWN_HEADERS]


def _refusal(status: HTTPStatus, message: str) -> web.Response:
    """An error in TorchServe's own form."""
    return web.json_response({"code": status, "type": status.phrase, "message": message}, status=status)


@web.middleware
async def _explained(request: web.Request, handler: Handler) -> web.StreamResponse:
    """What goes wrong here is said in the same form as what goes wrong in TorchServe."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        return _refusal(HTTPStatus(error.status), error.text or error.reason)
    except aiohttp.ClientError:
        refusal = _refusal(HTTPStatus.SERVICE_UNAVAILABLE, "The server is starting or ending: try again.")
        refusal.headers["Retry-After"] = "1"
        return refusal
