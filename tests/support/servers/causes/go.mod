module benchkit/tests/causes

go 1.22.0
