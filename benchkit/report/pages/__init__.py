"""Reports as readers get them: the page, the files of a report, and figures in notebooks."""
