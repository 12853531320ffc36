// openloop sends requests when they are due, to tenths of a millisecond: the load tool for target rates.
module benchkit/backends/openloop

go 1.25.0

toolchain go1.26.8

require golang.org/x/sys v0.30.0
