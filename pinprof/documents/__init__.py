"""The JSON documents of pinprof as types: what writes a report fills them, what reads one again reads them."""
