"""Translate, score, align and evaluate text with a trained model, and extract its attention maps."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from itertools import repeat, starmap
from operator import add
from typing import Any, Literal, TypeVar, Unpack

from heed.data.pairs.tokenizer import Tokenizer
from heed.decoding import Hypothesis, NBest, Search
from heed.decoding.constraints import Constraint
from heed.decoding.search import Constraints
from heed.errors import HeedError, argument
from heed.evaluation.alignment import Link, align, to_gold
from heed.evaluation.scores import Scores, SystemOutput, score_output
from heed.evaluation.symptoms import translation_symptoms
from heed.inference import BATCH_TOKENS
from heed.inference.constraints import Terms, TermsInput, Writing
from heed.inference.engine import Engine, TorchEngine, attention_maps, length_batches, log_probs
from heed.inference.lines import LineError, as_list, blocks, check_pairs, encode_lines, renumbered
from heed.inference.next_words import NextWord, word_log_probs, word_search, word_starts
from heed.inference.outputs import Attended, Translation, choose_extraction, join_words, word_maps
from heed.inference.protection import Copies, Masked, stream_cut
from heed.inference.searches import Protect, SearchOptions, TranslateOptions, build_search
from heed.languages import Direction, choose_direction
from heed.layers.edits import Edits
from heed.models.edited import EditedModel
from heed.models.seq2seq import Seq2Seq
from heed.options import AtLeast1, validated
from heed.symbols import EOS, UNK, WORD_START

Result = TypeVar("Result")
TextInput = str | Sequence[str]
"""Several sentences, or one."""

PAIRS_AT_ONCE = 100
"""Sentence pairs with attention maps in memory at a time, because the maps of one pair can take several MB."""


@validated("")
class Translator:
    """A trained model with its tokenizer and search.

    Results are in the order of the input and do not depend on batching. The model runs in eval mode without autocast;
    its own mode is restored afterwards. The translation of a line without text or pieces is empty.

    Fallbacks are for lines that a model would lose; `without_fallbacks` turns them off:

    - A line without letters (``str.isalpha``), such as a number or an emoji, is its own translation with the score 0,
      unless no source piece of the model has a letter.
    - White space without a piece, such as a tab, is read as a space.
    - Empty hypotheses rank after all others.
    - A model with placeholders copies variables, tags and addresses (`heed.inference.protection`).

    Every method that takes sentences accepts a single string as one sentence. The result is still a list.

    Args:
        model: heed's own model, or an engine with one or without (`Engine.model`).
        search: the ``search`` section of a model folder's config, or a search that options of the methods cannot
            change. None: heed's default search.
        alignment: the ``alignment`` section of a model folder's config: the attention map that aligns words.
        src_lang, tgt_lang: language codes, "" if unknown.
        directions: source and target language of each trained direction. If empty, a model with language tags has both
            directions of its two languages.
        batch_tokens: padded source tokens per batch. Sentences of similar length share a batch.
        max_tokens: the longest accepted sentence in subwords without EOS; None: no limit. Time and memory grow with the
            square of the length.

    Raises:
        HeedError: if a number or a setting of the search is wrong.
    """

    def __init__(
        self,
        model: Seq2Seq | Engine,
        tokenizer: Tokenizer,
        search: Search | Mapping[str, Any] | None = None,
        *,
        alignment: Mapping[str, Any] | None = None,
        src_lang: str = "",
        tgt_lang: str = "",
        directions: Sequence[Sequence[str]] = (),
        base_model: Mapping[str, Any] | None = None,
        batch_tokens: AtLeast1 = BATCH_TOKENS,
        max_tokens: AtLeast1 | None = None,
    ) -> None:
        self.tokenizer = tokenizer.towards(tgt_lang)
        self.alignment = alignment
        self.base_model = base_model
        """The name and the licence of the published model that this is, or was fine-tuned from."""
        self.src_lang = src_lang
        self.tgt_lang = tgt_lang
        own = Direction(src_lang, tgt_lang)
        others = [Direction(*languages) for languages in directions] or [own.reversed()] * bool(tokenizer.tags)
        self._directions = list(dict.fromkeys([own, *others]))
        self.batch_tokens = batch_tokens
        self.max_tokens = max_tokens
        self._own = model if isinstance(model, Engine) else TorchEngine(model)
        self.engine: Engine = self._own
        """Runs the search. ``model`` always computes attention maps and scores of given translations."""
        self.saved_search = search
        self._has_fallbacks = True
        self.search = self.changed_search()
        self.on_batch: Callable[[float], object] = lambda *_: None
        """Called after each batch with its number of sentences, to report progress. Each sentence counts once."""

    @property
    def model(self) -> Seq2Seq:
        """heed's own model; an export has none, and raises a HeedError."""
        return self._own.model

    @property
    def directions(self) -> list[str]:
        """The directions in which the model was trained, such as "en-de". This translator's direction is the first."""
        return list(dict.fromkeys(map(str, [Direction(self.src_lang, self.tgt_lang), *self._directions])))

    def in_direction(self, name: str | None) -> "Translator":
        """Return a translator of the same model for another direction; raise a HeedError if the model lacks it.

        Args:
            name: see `choose_direction`; None: this translator's direction.
        """
        own = Direction(self.src_lang, self.tgt_lang)
        chosen = own if name is None else choose_direction(name, self._directions, tags=self.tokenizer.tags)
        other = copy(self)
        other.tokenizer, (other.src_lang, other.tgt_lang) = self.tokenizer.towards(chosen.tgt_lang), chosen
        other.search = other.changed_search()
        return other

    def with_tag(self, name: str | None) -> "Translator":
        """Return a translator for texts like those that had this tag in training (``tag`` in ``data.train``).

        Args:
            name: for example "<crawl>" or "crawl"; None: this translator's tag, usually none.

        Raises:
            HeedError: if the model was not trained with the tag.
        """
        if name is None:
            return self
        tag = next((tag for tag in self.tokenizer.text_tags if name in (tag, tag.strip("<>"))), None)
        if tag is None:
            known = ", ".join(self.tokenizer.text_tags) or "none"
            raise HeedError(f"{argument('tag', name)} is not a tag of this model's training texts: it has {known}.")
        other = copy(self)
        other.tokenizer = self.tokenizer.tagged(tag)
        return other

    def without_fallbacks(self) -> "Translator":
        """Return a translator for scores, which gives the model every line as it is and accepts empty translations."""
        other = copy(self)
        other._has_fallbacks = False
        return other

    @property
    def _copies(self) -> bool:
        """Whether the model has placeholders for protected text, and an engine that writes each of them once."""
        return self._has_fallbacks and bool(self.tokenizer.placeholders) and self._own.has_constraints

    def mask(self, sentence: str, protect: Protect = None) -> Masked:
        """Return a sentence as the model reads it, with placeholders for its spans. ``protect``: see `translate`."""
        masks = self._copies if protect is None else protect
        return Masked.of(sentence, protect or True) if masks else Masked(sentence)

    def with_engine(self, engine: Engine) -> "Translator":
        """Return a translator of the same model that searches with another engine."""
        other = copy(self)
        other.engine = engine
        return other

    def with_own_engine(self) -> "Translator":
        """Return a translator of the same model that searches with heed's own engine, which has constraints."""
        return self.with_engine(self._own)

    def with_edits(self, edits: Edits, prefix: Sequence[int] = ()) -> "Translator":
        """Return a translator with edits of attention (`heed.interventions.Edit`). The model itself is not changed.

        Every translation starts with the tokens of ``prefix``. Raise a HeedError if the model lacks the attention.
        """
        return self._with_model(EditedModel(self.model, edits, prefix))

    def _with_model(self, model: Seq2Seq) -> "Translator":
        other = copy(self)
        other.engine = other._own = TorchEngine(model)
        return other

    def translate(self, sentences: TextInput, **options: Unpack[TranslateOptions]) -> list[str]:
        """Return the best translation of each sentence.

        Args:
            options: changes to the search of this call, and what translations must contain, see `TranslateOptions`.

        Raises:
            HeedError: if an option is wrong, or a line is too long or not valid Unicode.
        """
        return [translations[0].text for translations in self.hypotheses(sentences, **options)]

    def hypotheses(
        self,
        sentences: TextInput,
        *,
        n: int | None = None,
        alignments: bool = False,
        **options: Unpack[TranslateOptions],
    ) -> list[list[Translation]]:
        """Return the n best translations of each sentence with their scores, best first.

        A search returns fewer if it finds fewer.

        Args:
            n: maximum number of translations of each sentence; None: ``n_best`` of the model's search, usually 1.
            alignments: add the word alignment of each translation.
            options: see `translate`.

        Raises:
            HeedError: see `translate`.
        """
        lines = as_list(sentences)
        return list(self.stream_hypotheses(lines, chunk=max(1, len(lines)), n=n, alignments=alignments, **options))

    def stream_hypotheses(
        self,
        lines: Iterable[str],
        *,
        chunk: int,
        is_ready: Callable[[], bool] = lambda: True,
        n: int | None = None,
        alignments: bool = False,
        prefix: str | Iterable[str] = "",
        terms: TermsInput = None,
        tag: str | None = None,
        protect: Protect = None,
        **search: Unpack[SearchOptions],
    ) -> Iterator[list[Translation]]:
        """Yield the results of `hypotheses`, reading ``chunk`` lines at a time.

        Args:
            is_ready: whether the next line can be read without waiting. Where it cannot, the lines before are
                translated first.
            prefix: one for all lines, or as many as lines.
            n, alignments, terms, tag, protect, search: see `hypotheses`. They are checked before a line is read.
        """
        if chunk < 1:
            raise HeedError(f"{argument('chunk', chunk)} must be at least 1.")
        chosen, constrain = self.changed_search(n, **search), self._constrain(prefix, terms)
        if alignments:
            _ = self.model  # an engine without one is refused before the first line is read
        grouped = blocks(iter([lines] if isinstance(lines, str) else lines), chunk, is_ready)
        mask = partial(self.mask, protect=protect)
        stream = partial(self.with_tag(tag)._stream, search=chosen, constrain=constrain, alignments=alignments)
        if protect and not self._copies:
            if self.tokenizer.placeholders:
                self._own.check(chosen, constrained=True)  # an export is refused
            if prefix or (n or 1) > 1:
                raise HeedError(
                    "This model has no placeholders (tokenizer.placeholders), so protected text cuts lines: they have "
                    "neither prefixes nor several translations."
                )
            return stream_cut(lambda texts: stream([texts], mask=Masked), grouped, protect)
        return stream(grouped, mask=mask)

    def score(self, sources: TextInput, targets: TextInput) -> list[float]:
        """Return log p(target | source) of each pair in nats: the sum over the target's tokens and EOS.

        Raises:
            HeedError: if there are not as many targets as sources, or a line is refused (see `translate`).
        """
        return self.score_ids(*self.encode_pairs(as_list(sources), as_list(targets)))

    def score_words(self, sources: TextInput, targets: TextInput) -> list[list[tuple[str, float]]]:
        """Return the words of each target, with log p of each in nats, as `heed.inference.next_words` defines it.

        Words are separated by spaces. Errors: see `score`.
        """
        src_ids, tgt_ids = self.encode_pairs(as_list(sources), as_list(targets))
        scores = self._teacher_force(partial(word_log_probs, word_starts(self.tokenizer)), src_ids, tgt_ids)
        pieces = map(self.tokenizer.tgt_pieces, tgt_ids)
        return [join_words(zip(own, values, strict=True)) for own, values in zip(pieces, scores, strict=True)]

    def next_words(self, sentence: str, prefix: str = "", *, n: AtLeast1 = 8) -> list[tuple[str, float]]:
        """Return the n most probable next words of a translation, best first, with log p of each in nats.

        A beam search finds them, whatever the search of the translator is. The word "" is the end of the translation.

        Args:
            prefix: the words before. The last one is complete.

        Raises:
            HeedError: if the sentence or the prefix is too long or not valid Unicode.
        """
        source = encode_lines(self.encode, [sentence], max_tokens=self.max_tokens)
        (begun,) = encode_lines(self.tokenizer.encode_tgt, [prefix], max_tokens=self.max_tokens)
        model = self._with_model(NextWord(self.model, begun, word_starts(self.tokenizer)))
        (found,) = model.translate_ids(source, search=word_search(n, len(begun)))
        ended = [each for each in found if each.finished]
        texts = self.tokenizer.decode_tgt([each.tokens[len(begun) :] for each in ended])
        best: dict[str, float] = {}  # a word may have several segmentations
        for text, each in zip(texts, ended, strict=True):
            if text or each.tokens == begun:  # a space alone is no word
                best.setdefault(text, each.log_prob)
        return [*best.items()][:n]

    def score_ids(self, sources: Sequence[list[int]], targets: Sequence[list[int]]) -> list[float]:
        """Return log p(target | source) in nats for each pair of ids. Sources and targets end with EOS."""
        return self._teacher_force(log_probs, sources, targets)

    def likelihood(self, sources: TextInput, references: Sequence[TextInput]) -> tuple[float, int]:
        """Return −log p in nats of one or several lists of references, and their number of tokens, EOS included."""
        encoded = [self.encode_pairs(as_list(sources), as_list(targets)) for targets in references]
        nll = -math.fsum(value for src_ids, tgt_ids in encoded for value in self.score_ids(src_ids, tgt_ids))
        return nll, sum(len(ids) for _, tgt_ids in encoded for ids in tgt_ids)

    def attend(
        self, sources: TextInput, targets: TextInput | None = None, **options: Unpack[TranslateOptions]
    ) -> list[Attended]:
        """Return the attention maps of each sentence pair.

        All maps are kept in memory, so pass at most a few hundred sentences at a time.

        Args:
            targets: the translations; None: translate with the model.
            options: see `translate`.

        Raises:
            HeedError: if there are not as many targets as sources, or a line is refused (see `translate`).
        """
        return list(self.stream_attend(sources, targets, **options))

    def stream_attend(
        self,
        sources: TextInput,
        targets: TextInput | None = None,
        *,
        prefix: str | Iterable[str] = "",
        terms: TermsInput = None,
        tag: str | None = None,
        protect: Protect = None,
        **search: Unpack[SearchOptions],
    ) -> Iterator[Attended]:
        """Yield the results of `attend`, with the maps of `PAIRS_AT_ONCE` pairs in memory at a time."""
        if protect and not self._copies:
            raise HeedError(f"{argument('protect', True)} is for attention maps of a model with placeholders only.")
        tagged, sources = self.with_tag(tag), as_list(sources)
        if targets is None:
            masked = [tagged.mask(sentence, protect) for sentence in sources]
            texts = [each.text for each in masked]
            ids = encode_lines(tagged.encode, texts, max_tokens=tagged.max_tokens)
            constraints = tagged._constrain(prefix, terms)(masked)
            copied = tagged._copied_rows(texts, constraints)
            constraints = tagged._with_copies(masked, copied, constraints)
            n_best, _ = tagged._search_lines(texts, ids, tagged.changed_search(**search), constraints, copied)
            pairs = tagged._attend_hypotheses(texts, ids, [hypotheses[0] for hypotheses in n_best])
            return (own.restored_pair(pair) for own, pair in zip(masked, pairs, strict=True))
        targets = as_list(targets)
        return tagged._attend_ids(sources, targets, *tagged.encode_pairs(sources, targets))

    def align(
        self,
        sources: TextInput,
        targets: TextInput,
        *,
        layer: int | None = None,
        head: int | None = None,
        row: Literal["output", "input"] | None = None,
        symmetrize: str = "target",
    ) -> list[list[Link]]:
        """Align the words of each sentence pair by cross-attention.

        Words are separated by white space. By default, links come from the attention map that training chose on
        validation data, or else from the mean over heads of the second last layer.

        Args:
            layer: decoder layer, counted from 1.
            head: attention head, counted from 1; 0: the mean of all heads.
            row: "output": attention of the state that predicts a target word. "input": attention of the state that
                reads it.
            symmetrize: align each target word ("target"), each source word ("source"), or combine both:
                "intersection", "union", "grow-diag-final-and".

        Returns:
            The sorted links (i, j) of each pair, in Pharaoh format ``i-j``: source word i is aligned to target word j,
            both counted from 0.

        Raises:
            HeedError: if the model has no cross-attention or no such map, or see `attend`.
        """
        return [
            self._links(pair, symmetrize, layer=layer, head=head, row=row)
            for pair in self.stream_attend(sources, targets)
        ]

    def evaluate(self, sources: TextInput, references: TextInput, **search: Unpack[SearchOptions]) -> Scores:
        """Translate sentences and return BLEU and chrF of the translations, with sacreBLEU's signatures.

        Args:
            references: one for each sentence.
            search: changes to the search, see `SearchOptions`.

        Raises:
            HeedError: if there are no sentences, the numbers differ, or a line is refused (see `translate`).
        """
        sources, references = as_list(sources), as_list(references)
        check_pairs(sources, references)
        output = SystemOutput(
            hypotheses=self.without_fallbacks().translate(sources, **search),
            references=[references],
            tgt_lang=self.tgt_lang,
            maximized=self.changed_search(**search).utility,
        )
        return score_output(output, {})

    def encode(self, sentences: Sequence[str]) -> list[list[int]]:
        """Return the ids of sentences of any length to translate, without EOS. White space of any script has no ids."""
        known = self.tokenizer.with_known_spaces if self._has_fallbacks else str
        return self.tokenizer.encode_src([known(line) if line.strip() else "" for line in sentences])

    def encode_pairs(self, sources: list[str], targets: list[str]) -> tuple[list[list[int]], list[list[int]]]:
        """Return the ids of sources and of targets as they are, with EOS; raise a HeedError as `score` does."""
        check_pairs(sources, targets)
        src_ids = encode_lines(self.without_fallbacks().encode, sources, max_tokens=self.max_tokens)
        tgt_ids = encode_lines(self.tokenizer.encode_tgt, targets, max_tokens=self.max_tokens)
        return [[*ids, EOS] for ids in src_ids], [[*ids, EOS] for ids in tgt_ids]

    def changed_search(self, n: int | None = None, **changes: Unpack[SearchOptions]) -> Search:
        """Return this translator's search with changes; raise a HeedError if the engine or the search refuses one.

        Args:
            n: see `hypotheses`.
        """
        if "n_best" in changes:
            raise HeedError("n_best is not an option of this method: hypotheses(sentences, n=3) returns the 3 best.")
        given = [name for name, value in {"n": n, **changes}.items() if value is not None and value is not False]
        if not isinstance(self.saved_search, Search):
            search = build_search(self.saved_search, n_best=n, **changes)
        elif given:
            raise HeedError(f"{' and '.join(given)} cannot change the search that this translator was made with.")
        else:
            search = self.saved_search
        self.engine.check(search)
        return search.with_text(self.tokenizer.decode_tgt)

    def translate_ids(
        self, sources: Sequence[Sequence[int]], *, search: Search | None = None, constraints: Constraints = None
    ) -> list[NBest]:
        """Return the hypotheses of the search for each source, best first.

        Args:
            sources: token ids without EOS. A source without tokens has one empty hypothesis.
            search: the search to use; None: the translator's search.
            constraints: those of each source; None: no source has any.
        """
        search = search or self.search
        bound = {row: own for row, own in enumerate(constraints or ()) if own}
        if bound and self._own.has_constraints and not self.engine.has_constraints:
            other = self._quiet().with_own_engine()
            own = other.translate_ids([sources[row] for row in bound], search=search, constraints=[*bound.values()])
            found = dict(zip(bound, own, strict=True))
            rest = self.translate_ids([() if row in found else ids for row, ids in enumerate(sources)], search=search)
            return [found.get(row, n_best) for row, n_best in enumerate(rest)]
        self.engine.check(search, constrained=bool(bound))
        empty = Hypothesis(tokens=[], log_prob=0.0, score=0.0, finished=True)
        with self.engine.ready() as engine:

            def search_rows(rows: list[int]) -> list[NBest]:
                filled = [row for row in rows if sources[row]]
                own = [bound.get(row, ()) for row in filled] if bound else None
                found = iter(engine.search([sources[row] for row in filled], search, own) if filled else ())
                return [next(found) if sources[row] else [empty] for row in rows]

            return self._in_batches(search_rows, [len(ids) + 1 for ids in sources])

    def _constrain(self, prefix: str | Iterable[str], terms: TermsInput) -> Callable[[Sequence[Masked]], Constraints]:
        """Return a function that gives the next lines their constraints, see `stream_hypotheses`."""
        if not prefix and not terms:
            return lambda _: None
        self.engine.check(self.search, constrained=True)
        writing, glossary = Writing.of(self.tokenizer), Terms.of(terms)
        prefixes = repeat(prefix) if isinstance(prefix, str) else iter(prefix)

        def constrain(number: int, line: Masked) -> list[Constraint]:
            own = next(prefixes, None)
            if own is None:
                raise LineError(number, " has no prefix: give one for each line, or one for all.")
            try:
                begin = writing.prefix(line.in_prefix(own))
                return [*begin, *writing.terms(glossary.in_sentence(line.text))]
            except HeedError as error:
                raise LineError(number, f": {error}") from error

        return lambda lines: list(starmap(constrain, enumerate(lines, 1)))

    def _stream(
        self,
        blocks: Iterable[list[str]],
        *,
        search: Search,
        constrain: Callable[[Sequence[Masked]], Constraints],
        mask: Callable[[str], Masked],
        alignments: bool,
    ) -> Iterator[list[Translation]]:
        done = 0
        for sentences in blocks:
            masked = [mask(sentence) for sentence in sentences]
            texts = [each.text for each in masked]
            with renumbered(partial(add, done)):
                src_ids = encode_lines(self.encode, texts, max_tokens=self.max_tokens)
                constraints = constrain(masked)
                copied = self._copied_rows(texts, constraints)
                constraints = self._with_copies(masked, copied, constraints)
                found, empty = self._search_lines(texts, src_ids, search, constraints, copied)

            def restored(
                row: int, text: str, constraints: Constraints = constraints, masked: Sequence[Masked] = masked
            ) -> str:
                return masked[row].restored(Writing.restored(text, constraints[row]) if constraints else text)

            rows = [row for row, n_best in enumerate(found) for _ in n_best]
            hypotheses = [hypothesis for n_best in found for hypothesis in n_best]
            decoded = iter(self.tokenizer.decode_tgt([hypothesis.tokens for hypothesis in hypotheses]))
            links: Iterator[list[Link] | None] = repeat(None)
            if alignments:
                pairs = self._attend_hypotheses(
                    [texts[row] for row in rows], [src_ids[row] for row in rows], hypotheses
                )
                links = (masked[row].links(pair, self._links(pair)) for row, pair in zip(rows, pairs, strict=True))
            for row, (source, n_best) in enumerate(zip(sentences, found, strict=True)):
                yield [
                    Translation(
                        text := source if row in copied else restored(row, next_text),
                        each.score,
                        each.log_prob,
                        each.finished,
                        translation_symptoms(source, text, finished=each.finished, best_is_empty=row in empty),
                        alignment=alignment,
                        pieces=() if row in copied else masked[row].named(self._pieces(each)),
                    )
                    for each, next_text, alignment in zip(n_best, decoded, links, strict=False)
                ]
            done += len(sentences)

    def _with_copies(self, masked: Sequence[Masked], copied: Sequence[int], constraints: Constraints) -> Constraints:
        """Return the constraints of each sentence after that of its placeholders; None if there are none."""
        ids = self.tokenizer.placeholders
        # Bytes could spell a placeholder too: this one begins private-use characters alone.
        first_bytes = [id_ for id_, text in enumerate(self.tokenizer.tgt_texts) if text == b"\xee"] if ids else []
        copies = [
            [Copies([*ids.values(), *first_bytes], frozenset(ids[char] for char in each.spans))]
            if each.spans and row not in copied
            else []
            for row, each in enumerate(masked)
        ]
        if not any(copies):
            return constraints
        return [[*own, *others] for own, others in zip(copies, constraints or repeat(()), strict=False)]

    def _pieces(self, hypothesis: Hypothesis) -> tuple[tuple[str, float], ...]:
        """Return the pieces of a hypothesis with log p of each; none if the engine does not say."""
        ids = [*hypothesis.tokens, *[EOS] * hypothesis.finished]
        marks = [WORD_START * (id_ == UNK and self.tokenizer.has_words) for id_ in ids]
        pieces = map(add, marks, self.tokenizer.tgt_pieces(ids))
        return tuple(zip(pieces, hypothesis.token_log_probs, strict=False))

    def _quiet(self) -> "Translator":
        """Return a translator for sentences that ``on_batch`` has already counted."""
        other = copy(self)
        other.on_batch = lambda _: None
        return other

    def _search_lines(
        self,
        lines: Sequence[str],
        src_ids: Sequence[list[int]],
        search: Search,
        constraints: Constraints,
        copied: Sequence[int],
    ) -> tuple[list[NBest], set[int]]:
        """Return the hypotheses of each line, best first, and the rows for which the search prefers an empty one."""
        searched = [[] if row in copied else ids for row, ids in enumerate(src_ids)]
        found = self.translate_ids(searched, search=search, constraints=constraints)
        for row, ids in zip(copied, self.tokenizer.encode_tgt([lines[row] for row in copied]), strict=True):
            found[row] = [replace(found[row][0], tokens=ids)]
        empty = {row for row, ids in enumerate(searched) if ids and self._is_empty(found[row][0])}
        if empty and self._has_fallbacks:
            again = self._quiet().translate_ids(
                [src_ids[row] for row in empty],
                search=search.with_all(),
                constraints=constraints and [constraints[row] for row in empty],
            )
            for row, n_best in zip(empty, again, strict=True):
                found[row] = sorted(n_best, key=self._is_empty)[: len(found[row])]
        return found, empty

    def _copied_rows(self, lines: Sequence[str], constraints: Constraints) -> list[int]:
        """Return the lines that are their own translations."""
        if not (self._has_fallbacks and self.tokenizer.reads_letters):
            return []
        copied = (row for row, line in enumerate(lines) if line.strip() and not any(map(str.isalpha, line)))
        return [row for row in copied if not (constraints and constraints[row])]

    def _is_empty(self, hypothesis: Hypothesis) -> bool:
        return not self.tokenizer.decode_tgt([hypothesis.tokens])[0].strip()

    def _links(self, pair: Attended, symmetrize: str = "target", **choice: Any) -> list[Link]:
        """Return the word alignment of one pair. ``choice`` selects the map, see `align`."""
        extraction = choose_extraction(self.alignment, pair, **choice)
        return sorted(to_gold(align(word_maps(pair)[extraction.index], symmetrize)).sure)

    def _attend_hypotheses(
        self, sources: Sequence[str], src_ids: Sequence[list[int]], hypotheses: Sequence[Hypothesis]
    ) -> Iterator[Attended]:
        """Yield the attention maps of sources and their hypotheses. ``src_ids`` have no EOS."""
        tgt_ids = [[*each.tokens, EOS] if each.finished else each.tokens for each in hypotheses]
        targets = self.tokenizer.decode_tgt(tgt_ids)
        return self._quiet()._attend_ids(sources, targets, [[*ids, EOS] for ids in src_ids], tgt_ids)

    def _attend_ids(
        self, sources: Sequence[str], targets: Sequence[str], src_ids: Sequence[list[int]], tgt_ids: Sequence[list[int]]
    ) -> Iterator[Attended]:
        """Yield the attention maps of sentence pairs. Ids end with EOS."""
        for start in range(0, len(sources), PAIRS_AT_ONCE):
            src_block, tgt_block = (ids[start : start + PAIRS_AT_ONCE] for ids in (src_ids, tgt_ids))
            with renumbered(partial(add, start)):
                maps = self._teacher_force(attention_maps, src_block, tgt_block)
            for row, (src, tgt, pair_maps) in enumerate(zip(src_block, tgt_block, maps, strict=True), start):
                pieces = self.tokenizer.src_pieces(src), self.tokenizer.tgt_pieces(tgt)
                yield Attended(sources[row], targets[row], *pieces, *pair_maps, tgt_ids=tgt)

    def _teacher_force(
        self,
        compute: Callable[[Seq2Seq, Sequence[list[int]], Sequence[list[int]]], list[Result]],
        src_ids: Sequence[list[int]],
        tgt_ids: Sequence[list[int]],
    ) -> list[Result]:
        """Apply `log_probs` or `attention_maps` to each pair, in batches. Ids end with EOS."""
        with self._own.inference_mode() as model:

            def compute_rows(rows: list[int]) -> list[Result]:
                return compute(model, [src_ids[row] for row in rows], [tgt_ids[row] for row in rows])

            lengths = [max(len(src), len(tgt)) for src, tgt in zip(src_ids, tgt_ids, strict=True)]
            return self._in_batches(compute_rows, lengths)

    def _in_batches(self, compute: Callable[[list[int]], list[Result]], lengths: Sequence[int]) -> list[Result]:
        """Apply ``compute`` to batches of rows with similar lengths, and return the results in order.

        Raises:
            LineError: if a batch is refused. It names the batch's longest sentence.
        """
        results: dict[int, Result] = {}
        for rows in length_batches(lengths, self.batch_tokens):
            try:
                results.update(zip(rows, compute(rows), strict=True))
            except HeedError as error:
                raise LineError(1 + rows[0], f": {error}") from error
            self.on_batch(len(rows))
        return [results[row] for row in range(len(lengths))]
