"""``POST /attend``: translate a sentence, and return its attention weights; force some of them."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import BaseModel, Field

from heed.inference.outputs import Attended
from heed.interventions.forcing import force, force_row, named_words
from heed.layers.edits import AttentionKind
from heed.plot.attention_map import most_informative_head
from heed.serve.errors import ApiError
from heed.serve.schemas import LanguageCode, ModelName, RequestBody, Side, Text
from heed.serve.service import Service

MAX_PIECES = 200
"""Longest text in subwords. The size of the response grows with the square of the length."""
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


class AttendRequest(RequestBody):
    """``POST /attend``."""

    q: Annotated[Text, Field(min_length=1, description="One sentence.", examples=["The dog runs."])]
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
    tokens: Annotated[dict[Side, list[str]], Field(description="Subwords of both sides, including the end symbol.")]
    words: Annotated[
        dict[Side, dict[str, list[int]]],
        Field(description="The words that can be forced, such as `es#2`, the second `es`, and their subwords."),
    ]
    force: Annotated[Sequence[ForcedRow], Field(description="The forced rows of the request.")]
    translation: str
    layers: list[Layer]
    best: Annotated[
        dict[str, BestHead], Field(description="For each kind, the head whose rows differ most from one another.")
    ]


async def translate_and_attend(service: Service, body: AttendRequest) -> AttendResponse:
    """Translate a sentence and return its attention weights."""
    service.check_size(body.q)
    route = service.find_route(body.source, body.target, body.model)
    text = " ".join(body.q.split())
    (ids,) = route.translator.tokenizer.encode_src([text])
    if len(ids) > MAX_PIECES:
        raise ApiError(f"The sentence has {len(ids):,} subwords, and attention is shown for up to {MAX_PIECES}.")
    if not ids:
        raise ApiError("The text is empty: send a sentence.")
    for row in body.force:
        last = min(row.queries) if row.attention == "decoder_self" else len(ids)
        if max(row.keys) > last:
            raise ApiError(f"The query {min(row.queries)} of {row.attention} attention has keys up to {last} only.")

    def attend() -> Attended:
        edits = [force_row(**vars(row)) for row in body.force]
        return force(route.translator, text, edits)[1] if edits else route.translator.attend(text)[0]

    pair = await service.worker(route.model).call(attend)
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
        force=body.force,
        translation=pair.target,
        layers=[
            Layer(name=f"layer {number}", kind=maps.kind, heads=heads.astype(float).round(DIGITS).tolist())
            for maps in sets
            for number, heads in enumerate(maps.weights, start=1)
        ],
        best={kind: BestHead(layer=layer, head=head) for kind, (layer, head) in best.items()},
    )
