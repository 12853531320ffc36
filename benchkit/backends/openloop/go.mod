// openloop sends requests when they are due, to tenths of a millisecond: the load tool for target rates.
module benchkit/backends/openloop

go 1.26.0

toolchain go1.26.8

require (
	github.com/quic-go/quic-go v0.65.0
	golang.org/x/sys v0.47.0
)

require (
	github.com/quic-go/qpack v0.6.0 // indirect
	golang.org/x/crypto v0.54.0 // indirect
	golang.org/x/net v0.56.0 // indirect
	golang.org/x/text v0.40.0 // indirect
)
