"""``POST /attend``: the translation of a text and what each of its pieces attended to."""

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, BeforeValidator, Field

from heed.inference.outputs import Attended
from heed.inference.translator import Translator
from heed.plot.attention_map import map_sets, most_informative_head
from heed.serve.errors import ApiError
from heed.serve.requests import bearer_token, body_schema, read_body, time_limit, unless_disconnected
from heed.serve.schemas import ApiKey, ErrorResponse, LanguageCode, Text
from heed.serve.service import Service

MAX_PIECES = 200
"""Longest text in subwords: the answer grows with the square of the length."""
DIGITS = 4
"""Decimal places of weights."""


class AttendRequest(BaseModel):
    """``POST /attend``."""

    q: Annotated[Text, Field(min_length=1, description="One sentence.", examples=["The dog runs."])]
    source: LanguageCode
    target: LanguageCode
    model: Annotated[
        Text | None,
        BeforeValidator(lambda value: value or None),
        Field(description="A name of `/models`. Default: the first."),
    ] = None
    api_key: ApiKey = None


class Tokens(BaseModel):
    """The subwords of a sentence and of its translation, with the symbol that ends each."""

    source: list[str]
    target: list[str]


class Layer(BaseModel):
    """The attention weights of a layer."""

    name: str
    kind: Annotated[str, Field(description="`cross`, `encoder_self` or `decoder_self`.")]
    heads: Annotated[
        list[list[list[float]]],
        Field(
            description="For each head a row for each query, with the weights of the keys. `cross`: target on source; "
            "`encoder_self`: source on source; `decoder_self`: the decoder's input, `<s>` and the target without its "
            "last token, on itself."
        ),
    ]


class BestHead(BaseModel):
    """A layer and a head, counted from 0."""

    layer: int
    head: int


class AttendResponse(BaseModel):
    """A translation with its attention weights."""

    model: str
    family: Annotated[str, Field(description="`transformer` or `rnn`.")]
    tokens: Tokens
    translation: str
    layers: list[Layer]
    best: Annotated[
        dict[str, BestHead], Field(description="For each kind the head whose rows differ most from one another.")
    ]


def attend_router(service: Service, responses: dict[int | str, dict[str, Any]] | None = None) -> APIRouter:
    """Return the router of ``/attend``."""
    router = APIRouter()

    @router.post(
        "/attend",
        responses=responses or {HTTPStatus.BAD_REQUEST: {"model": ErrorResponse}},
        openapi_extra=body_schema(AttendRequest),
        tags=["attention"],
    )
    async def attend(request: Request) -> AttendResponse:
        """Translate a sentence and return the attention weights of all layers and heads."""
        async with time_limit(service.settings.timeout):
            body = await read_body(request, AttendRequest)
            service.check_key(body.api_key or bearer_token(request))
            return await unless_disconnected(request, _attend(service, body))

    return router


async def _attend(service: Service, body: AttendRequest) -> AttendResponse:
    if len(body.q) > service.settings.max_chars:
        raise ApiError(
            HTTPStatus.BAD_REQUEST,
            f"{len(body.q):,} characters exceed the limit of {service.settings.max_chars:,}.",
        )
    models = service.models
    route = models.find(models.find_language(body.source), models.find_language(body.target), body.model)
    return await service.worker(route.model).call(lambda: _answer(route.model, route.translator, body.q))


def _answer(name: str, translator: Translator, text: str) -> AttendResponse:
    text = " ".join(text.split())
    (ids,) = translator.tokenizer.encode_src([text])
    if len(ids) > MAX_PIECES:
        raise ApiError(
            HTTPStatus.BAD_REQUEST,
            f"The sentence has {len(ids):,} subwords, and attention is shown for up to {MAX_PIECES}.",
        )
    if not ids:
        raise ApiError(HTTPStatus.BAD_REQUEST, "The text is empty: send a sentence.")
    (pair,) = translator.attend(text)
    return AttendResponse(
        model=name,
        family=translator.model.config.family,
        tokens=Tokens(source=pair.src_pieces, target=pair.tgt_pieces),
        translation=pair.target,
        layers=_layers(pair),
        best={maps.kind: _best(maps.weights) for maps in map_sets(pair)},
    )


def _layers(pair: Attended) -> list[Layer]:
    return [
        Layer(name=f"layer {number}", kind=maps.kind, heads=heads.astype(float).round(DIGITS).tolist())
        for maps in map_sets(pair)
        for number, heads in enumerate(maps.weights, start=1)
    ]


def _best(weights: Any) -> BestHead:
    layer, head = most_informative_head(weights)
    return BestHead(layer=layer, head=head)
