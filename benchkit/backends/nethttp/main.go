// Command nethttp is a server on Go's net/http: the one of study 1, alone and behind nginx.
package main

import (
	"net/http"

	"benchkit/backends/kit"
)

func main() { kit.Main("nethttp", serve) }

// serve serves without timeouts, as the study did: each timeout would be a timer for each request.
func serve(app *kit.App) error {
	listener, err := app.Open()
	if err != nil {
		return err
	}
	return (&http.Server{Handler: app}).Serve(listener)
}
