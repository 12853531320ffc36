module benchkit/backends/goproxy

go 1.26.0

toolchain go1.26.8

require github.com/goproxy/goproxy v0.15.0

require golang.org/x/mod v0.13.0 // indirect
