module benchkit/backends/kit

go 1.22.0

toolchain go1.26.8
