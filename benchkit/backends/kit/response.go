package kit

import (
	"bytes"
	"net/http"
	"strconv"
)

// Hello is the body unless -body-size says otherwise.
const Hello = "Hello World\n"

// HeaderBytes is the length of the response header of study 1, from the status line to the blank line, for a body of
// two-digit length: every cell of the study must send as many.
const HeaderBytes = 141

// The header fields of study 1. Server is as long as "nginx", so that a cell behind nginx sends as many bytes.
const (
	Server      = "gophr"
	Connection  = "keep-alive"
	ContentType = "text/plain"
)

// other is a body of the same length that a check of the bytes must notice.
const other = "Other Words\n"

// Body is the body of that many bytes: Hello over and over, the last one cut. Every backend, in any language, sends it.
func Body(size int) []byte { return repeated(Hello, size) }

func otherBody(size int) []byte { return repeated(other, size) }

func repeated(text string, size int) []byte {
	return bytes.Repeat([]byte(text), size/len(text)+1)[:size:size]
}

// ServeHTTP is the handler of the net/http backends (and of net/http/fcgi): the one of study 1, written as one writes it.
func (a *App) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status := a.Status(r.Context().Done())
	if status == 0 {
		return
	}
	a.SetHeader(w.Header())
	w.Header().Set("Content-Length", strconv.Itoa(len(a.Body)))
	if status != http.StatusOK {
		w.WriteHeader(status)
	}
	// A client that has gone is no error of ours, and a benchmark's server prints nothing for a request.
	_, _ = w.Write(a.Body)
	a.Requests.Add(1)
}

// Status does what a request costs beside its answer, work and faults, and is the status to answer with. It is 0 for a
// request that is never answered: then it returns when gone is closed. It may block for as long as the faults say.
func (a *App) Status(gone <-chan struct{}) int {
	status := http.StatusOK
	if a.Faults.Any() {
		switch a.Faults.Strike() {
		case Fail:
			status = http.StatusInternalServerError
		case Hang:
			<-gone
			return 0
		}
	}
	if !a.Work.Do() {
		status = http.StatusInternalServerError
	}
	return status
}

// SetHeader sets the header fields that do not depend on the request.
func (a *App) SetHeader(header http.Header) {
	header.Set("Server", Server)
	header.Set("Connection", Connection)
	header.Set("Content-Type", ContentType)
	for _, field := range a.Faults.Headers {
		header.Add(field.Name, field.Value)
	}
}
