"""The schemas of requests and responses."""

import json
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from heed.evaluation.symptoms import TRANSLATION_SYMPTOMS
from heed.inference.lines import SURROGATE


def _check_unicode(text: str) -> str:
    if SURROGATE.search(text):
        raise ValueError("it is not Unicode text: it contains a lone surrogate")
    return text


SideName = Literal["source", "target"]
UnicodeText = Annotated[str, AfterValidator(_check_unicode)]
TermText = Annotated[str, Field(min_length=1, max_length=100), AfterValidator(_check_unicode)]
LanguageCode = Annotated[UnicodeText, Field(min_length=1, examples=["en"])]
ModelName = Annotated[UnicodeText | None, Field(description="A name of `/models`. Default: the first.")]


LogProbs = list[tuple[str, float]]


class RequestBody(BaseModel):
    """The fields of all requests. An empty optional field, as in a form, counts as missing."""

    api_key: Annotated[UnicodeText | None, Field(description="The API key, if the server requires one.")] = None

    @model_validator(mode="before")
    @classmethod
    def _drop_empty_fields(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        optional = {name for name, field in cls.model_fields.items() if not field.is_required()}
        return {name: value for name, value in data.items() if not (value == "" and name in optional)}


class CamelCase(BaseModel):
    """A response with keys in camelCase."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class ErrorResponse(BaseModel):
    """Any error."""

    error: str


class ConstrainedRequest(RequestBody):
    """The fields of requests for translations that contain given words."""

    prefix: Annotated[
        UnicodeText, Field(max_length=1000, description="Text with which the translation begins, for one sentence.")
    ] = ""
    terms: Annotated[
        dict[UnicodeText, TermText | list[TermText]],
        BeforeValidator(lambda terms: json.loads(terms) if isinstance(terms, str) else terms),
        Field(max_length=100, description="Source words, and the target words, or several, that translate them."),
    ] = {}


class TranslateRequest(ConstrainedRequest):
    """``POST /translate``."""

    q: Annotated[UnicodeText | list[UnicodeText], Field(description="A text, or several.", examples=["The dog runs."])]
    source: Annotated[LanguageCode, Field(description="Language code, or `auto`.")]
    target: Annotated[LanguageCode, Field(description="Language code.")]
    format: Annotated[
        Literal["text", "html", "md"] | None, BeforeValidator(lambda kind: kind and str(kind).lower())
    ] = "text"
    alternatives: Annotated[
        int | None, Field(description="Further translations to return. HTML and Markdown have none.")
    ] = 0
    beam: Annotated[
        int | None, Field(ge=1, description="Beam size. Default: the one that the model was scored with.")
    ] = None
    tag: Annotated[
        UnicodeText | None, Field(max_length=100, description="The kind of text: a tag of the model's training texts.")
    ] = None
    protect: Annotated[
        bool | None, Field(description="Copy variables, tags, addresses. Default: if the model has placeholders.")
    ] = None
    log_probs: Annotated[bool, Field(description="Return log p of each subword and word, by heed's own engine.")] = (
        False
    )
    model: ModelName = None


class Detection(BaseModel):
    """A language and its probability in percent among the source languages of the server."""

    language: str
    confidence: Annotated[float, Field(ge=0, le=100)]


class TranslateResponse(CamelCase):
    """Translations. Fields are lists if ``q`` was a list."""

    translated_text: str | list[str]
    alternatives: list[str] | list[list[str]] | None = None
    detected_language: Detection | list[Detection] | None = None
    symptoms: Annotated[
        list[str] | list[list[str]] | None,
        Field(
            description="What is wrong with the translation, only if anything is. "
            + " ".join(f"`{name}`: {texts['meaning']}." for name, texts in TRANSLATION_SYMPTOMS.items())
            + " A sentence with an empty translation is copied."
        ),
    ] = None
    pieces: Annotated[
        LogProbs | list[LogProbs] | None,
        Field(description="Subwords and log p of each, with the end of each sentence; `▁` starts a word."),
    ] = None
    words: Annotated[LogProbs | list[LogProbs] | None, Field(description="Words and log p of each.")] = None


class WordsRequest(RequestBody):
    """``POST /words``."""

    q: Annotated[UnicodeText, Field(description="One sentence.", examples=["The dog runs."])]
    translation: Annotated[UnicodeText, Field(description="Its translation, or the words with which one begins.")]
    source: LanguageCode
    target: LanguageCode
    candidates: Annotated[int, Field(ge=0, le=20, description="Number of words to return that may follow.")] = 0
    model: ModelName = None


class WordProbability(BaseModel):
    """A word and its probability after the words before it."""

    text: Annotated[str, Field(description="Empty: the end of the translation.")]
    probability: float


class WordsResponse(BaseModel):
    """The words of a translation, and the most probable ones that may follow."""

    words: list[WordProbability]
    candidates: list[WordProbability]


class DetectRequest(RequestBody):
    """``POST /detect``."""

    q: Annotated[UnicodeText, Field(min_length=1, examples=["The dog runs."])]


class NamedLanguage(BaseModel):
    """A language with its English name."""

    code: str
    name: str


class ServedLanguage(NamedLanguage):
    """A language of the server."""

    targets: Annotated[list[str], Field(description="Target languages.")]


class ModelDescription(BaseModel):
    """A model of the server."""

    name: str
    directions: list[dict[SideName, str]]


class FrontendSettings(CamelCase):
    """``GET /frontend/settings``."""

    char_limit: int
    text_limit: Annotated[int, Field(description="Texts per request.")]
    frontend_timeout: int = 500
    api_keys: bool
    key_required: bool
    suggestions: bool = False
    files_translation: bool = False
    supported_files_format: list[str] = []
    language: Annotated[dict[SideName, NamedLanguage], Field(description="The initial selection of a web page.")]
