"""A step function → hypotheses: greedy, beam, sampling, least risk. They know ``models.seq2seq``, and no model."""

from heed.decoding.beam import BeamSearch
from heed.decoding.greedy import GreedySearch
from heed.decoding.sampling import SampleSearch
from heed.decoding.search import Hypothesis, Search

__all__ = ["BeamSearch", "GreedySearch", "Hypothesis", "SampleSearch", "Search"]
