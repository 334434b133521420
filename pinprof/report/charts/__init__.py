"""Charts of a page: pure functions from measurements to small figures, each with a caption that says the same."""
