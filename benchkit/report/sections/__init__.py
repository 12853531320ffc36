"""Sections of a report: each yields blocks, from which the page is written; `benchkit.report.page` lists them."""
