// Command fcgi is Go's net/http/fcgi: the handler of nethttp behind nginx, which speaks FastCGI to it over TCP or a unix
// socket, as in study 1.
package main

import (
	"net/http/fcgi"

	"benchkit/backends/kit"
)

func main() { kit.Main("fcgi", serve) }

func serve(app *kit.App) error {
	listener, err := app.Open()
	if err != nil {
		return err
	}
	return fcgi.Serve(listener, app)
}
