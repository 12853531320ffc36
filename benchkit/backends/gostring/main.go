// Command gostring is a net/http server whose handler writes a fixed string: the second server of study 2.
package main

import (
	"io"
	"net/http"
	"strconv"

	"benchkit/backends/kit"
)

func main() { kit.Main("gostring", serve) }

// serve serves without timeouts, as the study did.
func serve(app *kit.App) error {
	listener, err := app.Open()
	if err != nil {
		return err
	}
	text := string(app.Body)
	length := strconv.Itoa(len(text))
	return http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status := app.Status(r.Context().Done())
		if status == 0 {
			return
		}
		app.SetHeader(w.Header())
		w.Header().Set("Content-Length", length)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text) // fails if the client has closed the connection
		app.Requests.Add(1)
	}))
}
