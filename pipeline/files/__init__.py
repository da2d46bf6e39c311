"""What lies on disks and in the net: downloads and archives, tables, lines of text, parallel text."""
