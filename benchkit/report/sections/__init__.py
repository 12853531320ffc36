"""Sections of a report: a file each of the same shape; `benchkit.report.pages.page` lists them in their order."""
