"""Traffic from what people have: access logs, HAR files and OpenAPI descriptions as the requests of a load."""
