"""Reading parallel text: pairs of text files, tables (TSV, CSV), JSONL, parquet and TMX, compressed or not.

`heed.data.formats.entries` turns an entry of ``data.train`` into sources, by suffix. A source is cut into parts, which
processes read independently. Errors name the file and the line. Line breaks inside a field (JSON strings may contain
some) become spaces, so that every sentence is one line. Nothing else of the text is changed.
"""
