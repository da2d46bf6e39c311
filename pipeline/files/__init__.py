"""Files on disk and on the net: downloads and archives, tables, lines of text, parallel text."""
