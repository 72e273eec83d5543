"""Read the body of a request, JSON or a form, into a model of pydantic."""

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel

from heed.serve.errors import ApiError

Body = TypeVar("Body", bound=BaseModel)

FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")


def body_schema(cls: type[BaseModel]) -> dict[str, Any]:
    """Return the description of a body for OpenAPI: an endpoint that reads it by `read_body` has no other."""
    schema = cls.model_json_schema(ref_template="#/components/schemas/{model}")
    kinds = ("application/json", *FORMS[:1])
    return {"requestBody": {"required": True, "content": {kind: {"schema": schema} for kind in kinds}}}


async def read_body(request: Request, cls: type[Body]) -> Body:
    """Return the body as an instance of ``cls``.

    Like LibreTranslate, read JSON if the content type says so; otherwise a form, or the parameters of the URL.

    Raises:
        ApiError: if it is not JSON.
        pydantic.ValidationError: if fields are missing or wrong.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json" or kind.endswith("+json"):
        return cls.model_validate(_read_json(await request.body()))
    form = await request.form(max_files=0) if kind in FORMS else {}
    return cls.model_validate(_fields(cls, {**request.query_params, **form}))


def _read_json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ApiError(HTTPStatus.BAD_REQUEST, "Invalid request: the body is not JSON.") from error


def _fields(cls: type[BaseModel], form: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a form, with the line breaks of a text as in the JSON API: browsers send CR LF."""
    known = {name: value for name, value in form.items() if name in cls.model_fields}
    if isinstance(text := known.get("q"), str):
        known["q"] = text.replace("\r\n", "\n").replace("\r", "\n")
    return known
