"""What a reader gets: the report page, the files of a report, and figures as notebooks show them."""
