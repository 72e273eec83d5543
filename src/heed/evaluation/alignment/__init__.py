"""Word alignment from cross-attention, and its error rate.

Arrays over a sentence pair are "… T S": target words, source words. Links, here and in files, are (source, target)
positions, counted from 0.
"""

from heed.evaluation.alignment.error_rate import (
    Gold,
    MatchCounts,
    aer,
    aer_interval,
    match_counts,
    precision,
    recall,
    to_gold,
)
from heed.evaluation.alignment.extraction import (
    ROWS,
    Extraction,
    best_extraction,
    candidate_maps,
    default_extraction,
    extraction_from_config,
)
from heed.evaluation.alignment.pharaoh import format_pharaoh, parse_pharaoh
from heed.evaluation.alignment.symmetrization import (
    SYMMETRIZATIONS,
    Alignment,
    align,
    align_each_source,
    align_each_target,
    grow_diag_final_and,
)

__all__ = [
    "ROWS",
    "SYMMETRIZATIONS",
    "Alignment",
    "Extraction",
    "Gold",
    "MatchCounts",
    "aer",
    "aer_interval",
    "align",
    "align_each_source",
    "align_each_target",
    "best_extraction",
    "candidate_maps",
    "default_extraction",
    "extraction_from_config",
    "format_pharaoh",
    "grow_diag_final_and",
    "match_counts",
    "parse_pharaoh",
    "precision",
    "recall",
    "to_gold",
]
