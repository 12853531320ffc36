package kit

import (
	"bytes"
	"net/http"
	"strconv"
)

// Hello is the default body.
const Hello = "Hello World\n"

// HeaderBytes is the length of the response header of study 1, from the status line to the blank line, for a body of
// two-digit length. Every cell of the study must send a header of this length.
const HeaderBytes = 141

// The header fields of study 1. Server is as long as "nginx", so that a cell behind nginx sends the same number of bytes.
const (
	Server      = "gophr"
	Connection  = "keep-alive"
	ContentType = "text/plain"
)

// other is a different body of the same length, which a check of the bytes must detect.
const other = "Other Words\n"

// Body returns the body of this size: Hello repeated and truncated. Every backend, in any language, sends it.
func Body(size int) []byte { return repeated(Hello, size) }

func otherBody(size int) []byte { return repeated(other, size) }

func repeated(text string, size int) []byte {
	return bytes.Repeat([]byte(text), size/len(text)+1)[:size:size]
}

// ServeHTTP is the handler of the net/http backends and of net/http/fcgi: the handler of study 1.
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
	// An error means that the client has closed the connection; the server prints nothing for a request.
	_, _ = w.Write(a.Body)
	a.Requests.Add(1)
}

// Status does the work of a request, applies the faults and returns the status of the response. The status 0 is for a
// request that is never answered: Status then returns when gone is closed. Faults may make it block.
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
	if !a.HasNoConnectionField {
		header.Set("Connection", Connection)
	}
	header.Set("Content-Type", ContentType)
	for _, field := range a.Faults.Headers {
		header.Add(field.Name, field.Value)
	}
}
