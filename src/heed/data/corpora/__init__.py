"""The kinds of corpora, one for each file of ``conf/data``. Their ``load()`` returns a `heed.data.corpus.Corpus`."""
