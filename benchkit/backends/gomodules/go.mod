// What an in-house module service is made of beside the module proxy: a vanity-import server, a relay that lets nothing
// broken through, a public proxy's stand-in, and a developer who pulls modules when asked.
module benchkit/backends/gomodules

go 1.26.0

toolchain go1.26.8

require (
	go.yaml.in/yaml/v3 v3.0.4
	golang.org/x/mod v0.30.0
)
