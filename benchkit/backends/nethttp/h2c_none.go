//go:build !go1.24

package main

import (
	"errors"
	"net/http"
)

// speakH2C fails: net/http speaks HTTP/2 without TLS from Go 1.24 on.
func speakH2C(*http.Server) error { return errors.New("h2c needs Go 1.24 or newer") }
