"""``POST /attend``: translate a sentence, and return its attention weights; force some of them."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import Response
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, Field

from heed.inference.outputs import Attended
from heed.inference.searches import TranslateOptions
from heed.interventions.forcing import force, force_row, named_words
from heed.layers.edits import AttentionKind
from heed.plot.attention_map import most_informative_head
from heed.serve.errors import ApiError
from heed.serve.models import Route
from heed.serve.schemas import ConstrainedRequest, LanguageCode, ModelName, SideName, UnicodeText
from heed.serve.service import Service

MAX_PIECES = 200
"""Longest text and longest translation in subwords. The size of the response grows with the square of the length."""
MAX_FORCED = 50
"""Most forced rows of a request."""
DIGITS = 4
"""Decimal places of attention weights."""
Position = Annotated[int, Field(ge=0, le=10 * MAX_PIECES)]
Number = Annotated[int | None, Field(ge=0, description="Counted from 0. Default: all.")]


class ForcedRow(BaseModel):
    """Queries that attend to some keys only, with equal weights. Positions are those of the first translation."""

    attention: Annotated[AttentionKind, Field(examples=["cross"])]
    queries: Annotated[list[Position], Field(min_length=1, max_length=MAX_PIECES)]
    keys: Annotated[list[Position], Field(min_length=1, max_length=MAX_PIECES)]
    layer: Number = None
    head: Number = None


class AttendRequest(ConstrainedRequest):
    """``POST /attend``."""

    q: Annotated[UnicodeText, Field(min_length=1, description="One sentence.", examples=["The dog runs."])]
    source: LanguageCode
    target: LanguageCode
    model: ModelName = None
    force: Annotated[
        Sequence[ForcedRow],
        Field(
            max_length=MAX_FORCED,
            description="Rows of attention to force, as `heed attend --force` does: the words before the first forced "
            "row of the decoder are kept, and the search continues from there.",
        ),
    ] = ()


class Layer(BaseModel):
    """The attention weights of a layer."""

    name: str
    kind: Annotated[str, Field(description="`cross`, `encoder_self` or `decoder_self`.")]
    heads: Annotated[
        list[list[list[float]]],
        Field(
            description="One matrix per head: rows are queries, columns are keys. `cross`: target on source. "
            "`encoder_self`: source on source. `decoder_self`: the decoder's input (`<s>` and the target without its "
            "last token) on itself."
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
    tokens: Annotated[dict[SideName, list[str]], Field(description="Subwords of both sides, including the end symbol.")]
    words: Annotated[
        dict[SideName, dict[str, list[int]]],
        Field(description="The words that can be forced, such as `es#2`, the second `es`, and their subwords."),
    ]
    force: Annotated[Sequence[ForcedRow], Field(description="The forced rows of the request.")]
    translation: str
    layers: list[Layer]
    best: Annotated[
        dict[str, BestHead], Field(description="For each kind, the head whose map says most about the sentence.")
    ]


async def translate_and_attend(service: Service, body: AttendRequest) -> Response:
    """Translate a sentence and return its attention weights, an `AttendResponse`."""
    service.check_size(body.q)
    route = service.find_route(body.source, body.target, body.model)
    text = " ".join(body.q.split())
    (ids,) = route.translator.tokenizer.encode_src([route.translator.mask(text).text])
    _check_length("sentence", len(ids))
    if not ids:
        raise ApiError("The text is empty: send a sentence.")
    for row in body.force:
        last = min(row.queries) if row.attention == "decoder_self" else len(ids)
        if max(row.keys) > last:
            raise ApiError(f"The query {min(row.queries)} of {row.attention} attention has keys up to {last} only.")

    def attend() -> Attended:
        edits = [force_row(**vars(row)) for row in body.force]
        options: TranslateOptions = {"prefix": body.prefix, "terms": body.terms}
        translator = route.translator.with_own_engine() if body.prefix or body.terms else route.translator
        return force(translator, text, edits, **options)[1] if edits else translator.attend(text, **options)[0]

    pair = await service.worker(route.model).call(attend)
    _check_length("translation", len(pair.tgt_pieces) - 1)
    # In a thread, because it has up to millions of numbers.
    content = await run_in_threadpool(lambda: _response(route, pair, body.force).model_dump_json())
    return Response(content, media_type="application/json")


def _check_length(text: str, pieces: int) -> None:
    if pieces > MAX_PIECES:
        raise ApiError(f"The {text} has {pieces:,} subwords, and attention is shown for up to {MAX_PIECES}.")


def _response(route: Route, pair: Attended, forced: Sequence[ForcedRow]) -> AttendResponse:
    sets = pair.map_sets
    best = {maps.kind: most_informative_head(maps.weights) for maps in sets}
    return AttendResponse(
        model=route.model,
        family=route.translator.model.config.family,
        tokens={"source": pair.src_pieces, "target": pair.tgt_pieces},
        words={
            "source": named_words(pair.source, pair.src_pieces),
            "target": named_words(pair.target, pair.tgt_pieces),
        },
        force=forced,
        translation=pair.target,
        layers=[
            Layer(name=f"layer {number}", kind=maps.kind, heads=heads.astype(float).round(DIGITS).tolist())
            for maps in sets
            for number, heads in enumerate(maps.weights, start=1)
        ],
        best={kind: BestHead(layer=layer, head=head) for kind, (layer, head) in best.items()},
    )
