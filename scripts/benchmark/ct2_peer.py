"""CTranslate2 with heed's weights."""

from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from benchmark.peers import UnavailableError, require
from heed.errors import HeedError
from heed.export.to_ctranslate2 import EPSILON, check_supported, model_spec
from heed.models.transformer import Transformer
from heed.symbols import BOS, EOS, PAD, UNK


class CTranslate2Decoding:
    """A heed transformer in CTranslate2.

    Args:
        folder: where the converted model is written.
        kind: CTranslate2's compute type.
        longest: limit of target tokens.

    Raises:
        UnavailableError: CTranslate2 is not installed or does not support the model.
    """

    def __init__(
        self, model: Transformer, folder: Path, *, kind: str, threads: int, longest: int, device: str = "cpu"
    ) -> None:
        ctranslate2 = require("ctranslate2")
        self.longest = longest
        self.pieces = [f"piece{number}" for number in range(model.output.num_embeddings)]
        try:
            spec = model_spec(check_supported(model))
        except HeedError as error:
            raise UnavailableError(str(error)) from error
        spec.register_source_vocabulary(self.pieces)
        spec.register_target_vocabulary(self.pieces)
        names = {"unk_token": UNK, "bos_token": BOS, "eos_token": EOS, "decoder_start_token": BOS}
        for name, token in names.items():
            setattr(spec.config, name, self.pieces[token])
        spec.config.add_source_eos = False
        spec.config.layer_norm_epsilon = EPSILON[model.config.norm_kind]
        spec.validate()
        spec.optimize(quantization=None if kind == "float32" else kind)
        folder.mkdir()
        spec.save(str(folder))
        self.translator = ctranslate2.Translator(
            str(folder), device=device, compute_type=kind, inter_threads=1, intra_threads=threads
        )

    def translate(self, batches: Sequence[tuple[Tensor, Tensor]], *, beam: int) -> list[list[int]]:
        """Return the target ids of all rows of all (src, src_mask)."""
        found = []
        for src, mask in batches:
            results = self.translator.translate_batch(
                [[self.pieces[token] for token in row[inside].tolist()] for row, inside in zip(src, mask, strict=True)],
                beam_size=beam,
                length_penalty=0.0,  # scores are log p, as on the other sides
                max_decoding_length=self.longest,
                suppress_sequences=[[self.pieces[PAD]], [self.pieces[BOS]]],
            )
            found += [[int(piece.removeprefix("piece")) for piece in result.hypotheses[0]] for result in results]
        return found
