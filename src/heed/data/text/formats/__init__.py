"""Reading parallel text: pairs of text files, tables (TSV, CSV), JSON, parquet and TMX, compressed or not.

`heed.data.text.formats.entries` turns an entry of ``data.train`` into sources, by the first lines of each file
and its suffix. Errors name the file and the line. Line breaks inside a field, as in
JSON strings, become spaces, so that every sentence is one line. The text is not changed otherwise.
"""
