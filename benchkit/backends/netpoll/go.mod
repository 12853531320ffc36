module benchkit/backends/netpoll

go 1.26.0

toolchain go1.26.8

require (
	benchkit/backends/kit v0.0.0
	github.com/cloudwego/netpoll v0.7.2
)

require (
	github.com/bytedance/gopkg v0.1.1 // indirect
	github.com/cloudwego/gopkg v0.1.4 // indirect
)

replace benchkit/backends/kit => ../kit
