"""Traffic from what people have: access logs and HAR files as the requests of a load."""
