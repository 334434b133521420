"""Reports as Python objects: tables as DataFrames, figures of plotly."""
