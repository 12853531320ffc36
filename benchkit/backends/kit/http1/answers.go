package http1

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"benchkit/backends/kit"
)

// Interim is the response to a client that waits before it sends its body.
const Interim = "HTTP/1.1 100 Continue\r\n\r\n"

// Answers are the responses of a server, with the same bytes as those of net/http with the kit's handler. Their headers are
// prepared in advance and again each second, since only the date changes.
type Answers struct {
	app     *kit.App
	headers atomic.Pointer[headers]
}

// headers are indexed by their [kind].
type headers [8][]byte

// kind is the set of flags in which headers differ, apart from the date.
type kind int

const (
	failed kind = 1 << iota
	http10
	closing
)

func kindOf(status int, request Request) (which kind) {
	if status != http.StatusOK {
		which |= failed
	}
	if request.HTTP10 {
		which |= http10
	}
	if request.Close {
		which |= closing
	}
	return which
}

// NewAnswers prepares the responses of an app and keeps their date current until the process ends.
func NewAnswers(app *kit.App) *Answers {
	answers := &Answers{app: app}
	answers.write(time.Now())
	go func() {
		for {
			now := time.Now()
			time.Sleep(now.Truncate(time.Second).Add(time.Second).Sub(now))
			answers.write(time.Now())
		}
	}()
	return answers
}

// Append appends the response to a request with this status (200 or 500).
func (a *Answers) Append(to []byte, status int, request Request) []byte {
	to = append(to, a.Header(status, request)...)
	if !request.Head {
		to = append(to, a.app.Body...)
	}
	return to
}

// Header returns the header of that response, which the caller must not modify.
func (a *Answers) Header(status int, request Request) []byte {
	return a.headers.Load()[kindOf(status, request)]
}

// AppendRefusal appends the response to a request that the parser rejected with this error.
func AppendRefusal(to []byte, err error) []byte {
	refusal := &Refusal{http.StatusInternalServerError, "refused"}
	_ = errors.As(err, &refusal) // always a Refusal
	return fmt.Appendf(to, "HTTP/1.1 %d %s\r\nServer: %s\r\nConnection: close\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s\n",
		refusal.Status, http.StatusText(refusal.Status), kit.Server, kit.ContentType, len(refusal.Why)+1, refusal.Why)
}

func (a *Answers) write(now time.Time) {
	var written headers
	for which := range written {
		written[which] = a.header(kind(which), now)
	}
	a.headers.Store(&written)
}

// header writes a header in net/http's order: the fields that a handler sets, sorted by name, then those of the server.
func (a *Answers) header(which kind, now time.Time) []byte {
	status, version := http.StatusOK, "HTTP/1.1"
	if which&failed != 0 {
		status = http.StatusInternalServerError
	}
	if which&http10 != 0 {
		version = "HTTP/1.0"
	}
	set := http.Header{}
	a.app.SetHeader(set)
	set.Set("Content-Length", strconv.Itoa(len(a.app.Body)))
	if which&closing != 0 {
		set.Del("Connection")
	}
	var text bytes.Buffer
	fmt.Fprintf(&text, "%s %d %s\r\n", version, status, http.StatusText(status))
	_ = set.Write(&text) // writing to a buffer cannot fail
	fmt.Fprintf(&text, "Date: %s\r\n", now.UTC().Format(http.TimeFormat))
	if which&(closing|http10) == closing {
		text.WriteString("Connection: close\r\n")
	}
	text.WriteString("\r\n")
	return text.Bytes()
}
