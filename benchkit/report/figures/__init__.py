"""Figures of a run: each a function that draws and one that explains, declared as a `ReportFigure`."""
