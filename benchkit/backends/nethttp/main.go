// Command nethttp is Go's net/http on its own: the server of study 1 that nginx is put in front of.
package main

import (
	"net/http"

	"benchkit/backends/kit"
)

func main() { kit.Main("nethttp", serve) }

// serve serves without timeouts, as the study did: each would be a timer for each request.
func serve(app *kit.App) error {
	listener, err := app.Open()
	if err != nil {
		return err
	}
	return (&http.Server{Handler: app}).Serve(listener)
}
