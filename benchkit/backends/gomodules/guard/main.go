// Command guard is a proxy between a module proxy and its public upstream that only passes valid responses on.
//
// goproxy 2.0.7 caches every response of its upstream with status 200 for ever: a truncated zip or a sign-in page is then
// served to all users until the cache is emptied. The guard reads the whole response, checks it by the rules of the go
// command, and responds with 502 and the name of the module if it is invalid; no proxy caches that. While its upstream is
// down, it answers requests for lists of versions and for missing modules from memory.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"benchkit/backends/gomodules/internal/serve"
)

const (
	// maxFile is the size limit of a response: the zip of a module has at most 500 MiB
	// (https://go.dev/ref/mod#zip-path-size-constraints).
	maxFile = 500 << 20
	// upstreamTimeout is the time limit of a whole response of the upstream.
	upstreamTimeout = 5 * time.Minute
	// quoted is the length in bytes to which an error text of the upstream is quoted.
	quoted = 300
)

var contentTypes = map[string]string{
	"list": "text/plain; charset=utf-8", "mod": "text/plain; charset=utf-8", "zip": "application/zip",
	"info": "application/json", "latest": "application/json",
}

func main() { serve.Exit("guard", run()) }

func run() error {
	listen := flag.String("listen", "127.0.0.1:8082", "address and port")
	upstream := flag.String("upstream", "", "URL of the upstream module proxy")
	scratch := flag.String("scratch", "", "a folder for responses while they are checked")
	flag.Parse()
	base, err := url.Parse(*upstream)
	if err != nil || base.Host == "" || (base.Scheme != "http" && base.Scheme != "https") {
		return fmt.Errorf("-upstream: %q is not the URL of a module proxy", *upstream)
	}
	guard := &Guard{base: base, scratch: *scratch, client: &http.Client{Timeout: upstreamTimeout}, memory: newMemory()}
	return serve.Run(context.Background(), *listen, serve.Log(os.Stderr, guard))
}

// Guard serves the checked responses of its upstream, and earlier ones while the upstream is down.
type Guard struct {
	base    *url.URL
	scratch string
	client  *http.Client
	memory  *memory
}

func (g *Guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
		return
	}
	request, err := parseRequest(r.URL.Path)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	file, err := os.CreateTemp(g.scratch, "guard-*")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer os.Remove(file.Name())
	defer file.Close()
	status, words, err := g.fetch(r, file)
	if err == nil && status == http.StatusOK {
		if wrong := check(request, file.Name()); wrong != nil {
			err = fmt.Errorf("sent an invalid response: %w", wrong)
		}
	}
	switch {
	case err != nil:
		g.fallBack(w, request, err)
	case status == http.StatusNotFound || status == http.StatusGone:
		missing := answer{status, fmt.Appendf(nil, "%s: not found upstream: %s\n", request, words)}
		g.memory.keep(request.String(), missing)
		send(w, request, missing)
	case status != http.StatusOK:
		g.fallBack(w, request, fmt.Errorf("responded with status %d: %s", status, words))
	default:
		if request.Kind == "list" || request.Kind == "latest" {
			if content, err := os.ReadFile(file.Name()); err == nil {
				g.memory.keep(request.String(), answer{status, content})
			}
		}
		w.Header().Set("Content-Type", contentTypes[request.Kind])
		http.ServeContent(w, r, "", time.Time{}, file)
	}
}

// fallBack responds with an earlier response of the upstream or with the present error, which it logs in any case.
func (g *Guard) fallBack(w http.ResponseWriter, request Request, err error) {
	message := fmt.Sprintf("%s: the upstream proxy %v", request, err)
	fmt.Fprintln(os.Stderr, message)
	if before, known := g.memory.find(request.String()); known {
		send(w, request, before)
		return
	}
	http.Error(w, message, http.StatusBadGateway)
}

// send sends a response from memory.
func send(w http.ResponseWriter, request Request, given answer) {
	contentType := contentTypes[request.Kind]
	if given.status != http.StatusOK {
		contentType = contentTypes["list"] // an error text
	}
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(given.status)
	_, _ = w.Write(given.content) // fails if the client has closed the connection
}

// fetch writes the upstream's response to file. It returns the status, and the start of the error text if that is not 200.
func (g *Guard) fetch(r *http.Request, file *os.File) (status int, words string, err error) {
	at := g.base.JoinPath(r.URL.EscapedPath())
	request, err := http.NewRequestWithContext(r.Context(), http.MethodGet, at.String(), nil)
	if err != nil {
		return 0, "", err
	}
	answer, err := g.client.Do(request)
	if err != nil {
		return 0, "", fmt.Errorf("does not respond: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, quoted)) // an incomplete text is good enough
		return answer.StatusCode, strings.TrimSpace(strconv.QuoteToGraphic(string(text))), nil
	}
	size, err := io.Copy(file, io.LimitReader(answer.Body, maxFile+1))
	if err != nil {
		return 0, "", fmt.Errorf("closed the connection after %d bytes: %w", size, err)
	}
	if size > maxFile {
		return 0, "", fmt.Errorf("sent more than %d bytes", int64(maxFile))
	}
	_, err = file.Seek(0, io.SeekStart)
	return answer.StatusCode, "", err
}
