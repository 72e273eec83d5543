"""The kinds of corpora that ``conf/data`` selects. ``load()`` of each returns a `heed.data.corpus.Corpus`."""
