"""Search: greedy, beam and sampling, through the interface in ``models.seq2seq``."""

from heed.decoding.beam import BeamSearch
from heed.decoding.greedy import GreedySearch
from heed.decoding.sampling import SampleSearch
from heed.decoding.search import Hypothesis, NBest, Search

__all__ = ["BeamSearch", "GreedySearch", "Hypothesis", "NBest", "SampleSearch", "Search"]
