"""Callbacks that record a training which a framework drives, and give its figures to the training's own loggers."""
