"""Reading parallel text: pairs of text files, tables (TSV, CSV), JSONL, parquet and TMX, compressed or not.

An entry of ``data.train`` becomes one or several inputs (`heed.data.formats.entries`), and an input is cut into parts
that processes read independently. Errors name the file and the line. Line breaks inside a field (JSON strings may
contain some) become spaces, so that every sentence is one line. Nothing else of the text is changed.
"""
