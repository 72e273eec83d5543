"""Reading parallel text: pairs of text files, tables (TSV, CSV), JSONL, parquet and TMX, compressed or not.

`heed.data.formats.entries` turns an entry of ``data.train`` into sources, by suffix. Errors name the file and the line.
Line breaks inside a field, as in JSON strings, become spaces, so that every sentence is one line. The text is not
changed otherwise.
"""
