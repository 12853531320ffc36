// Command nethttp is a server on Go's net/http: the one of study 1, alone and behind nginx.
package main

import (
	"crypto/tls"
	"net/http"

	"benchkit/backends/kit"
)

var hop kit.TLS

func main() { kit.Main("nethttp", serve, hop.Define(kit.HTTP1, kit.HTTPS1, kit.H2, kit.H2C)) }

// serve serves without timeouts, as the study did: each timeout would be a timer for each request.
func serve(app *kit.App) error {
	server := &http.Server{Handler: app}
	if hop.Protocol == kit.H2C {
		if err := speakH2C(server); err != nil {
			return err
		}
	}
	if hop.IsOn() {
		config, err := hop.Config()
		if err != nil {
			return err
		}
		server.TLSConfig = config
		if hop.Protocol == kit.HTTPS1 {
			server.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){} // no HTTP/2
		}
	}
	listener, err := app.Open()
	if err != nil {
		return err
	}
	if hop.IsOn() {
		return server.ServeTLS(listener, "", "")
	}
	return server.Serve(listener)
}
