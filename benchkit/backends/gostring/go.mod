module benchkit/backends/gostring

go 1.26.0

toolchain go1.26.8

require benchkit/backends/kit v0.0.0

replace benchkit/backends/kit => ../kit
