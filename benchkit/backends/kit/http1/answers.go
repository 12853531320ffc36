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

// Interim is the answer to a client that waits before it sends its body.
const Interim = "HTTP/1.1 100 Continue\r\n\r\n"

// Answers are the answers of a server, byte for byte those of net/http with the kit's handler. Their headers are written
// ahead, and again each second, since nothing of them changes but the date.
type Answers struct {
	app     *kit.App
	headers atomic.Pointer[headers]
}

// headers are in the order of their [kind].
type headers [8][]byte

// kind is what headers differ by, beside the date: a set of the three flags.
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

// NewAnswers prepares the answers of an app and keeps their date right for as long as the process lives.
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

// Append appends the answer with this status (200 or 500) to a request.
func (a *Answers) Append(to []byte, status int, request Request) []byte {
	to = append(to, a.Header(status, request)...)
	if !request.Head {
		to = append(to, a.app.Body...)
	}
	return to
}

// Header is the header of that answer, which must not be changed.
func (a *Answers) Header(status int, request Request) []byte {
	return a.headers.Load()[kindOf(status, request)]
}

// AppendRefusal appends the answer to what a parser refused with this error.
func AppendRefusal(to []byte, err error) []byte {
	refusal := &Refusal{http.StatusInternalServerError, "refused"}
	_ = errors.As(err, &refusal) // it is one
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

// header writes a header in net/http's order: what a handler sets by name, then what the server adds.
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
	_ = set.Write(&text) // a buffer takes everything
	fmt.Fprintf(&text, "Date: %s\r\n", now.UTC().Format(http.TimeFormat))
	if which&(closing|http10) == closing {
		text.WriteString("Connection: close\r\n")
	}
	text.WriteString("\r\n")
	return text.Bytes()
}
