"""The comparison of two versions, and the search among revisions, as text and JSON."""
