//go:build go1.24

package main

import "net/http"

// speakH2C lets a server speak HTTP/2 without TLS, and nothing else.
func speakH2C(server *http.Server) error {
	server.Protocols = new(http.Protocols)
	server.Protocols.SetUnencryptedHTTP2(true)
	return nil
}
