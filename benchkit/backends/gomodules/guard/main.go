// Command guard stands between a module proxy and the public proxy that it asks, and lets nothing broken through.
//
// goproxy 2.0.7 keeps for ever whatever its upstream answers with status 200: a zip of which half is missing, or a
// sign-in page, is then served to everybody until somebody empties the cache. The guard takes an answer in whole, holds
// it against what the go command expects of it, and answers with 502 and the module's name where it does not fit, which
// no proxy keeps.
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
	// maxFile is the most that is taken of an answer: a module's zip has at most 500 MiB
	// (https://go.dev/ref/mod#zip-path-size-constraints).
	maxFile = 500 << 20
	// upstreamTimeout is how long the upstream may take for a whole answer.
	upstreamTimeout = 5 * time.Minute
	// quoted is how much of an upstream's words is passed on.
	quoted = 300
)

var contentTypes = map[string]string{
	"list": "text/plain; charset=utf-8", "mod": "text/plain; charset=utf-8", "zip": "application/zip",
	"info": "application/json", "latest": "application/json",
}

func main() { serve.Exit("guard", run()) }

func run() error {
	listen := flag.String("listen", "127.0.0.1:8082", "address and port")
	upstream := flag.String("upstream", "", "URL of the module proxy that is asked")
	scratch := flag.String("scratch", "", "a folder for answers that are being checked")
	flag.Parse()
	base, err := url.Parse(*upstream)
	if err != nil || base.Host == "" || (base.Scheme != "http" && base.Scheme != "https") {
		return fmt.Errorf("-upstream: %q is no URL of a module proxy", *upstream)
	}
	guard := &Guard{base: base, scratch: *scratch, client: &http.Client{Timeout: upstreamTimeout}}
	return serve.Run(context.Background(), *listen, serve.Log(os.Stderr, guard))
}

// Guard answers with what its upstream has, once that is checked.
type Guard struct {
	base    *url.URL
	scratch string
	client  *http.Client
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
			err = fmt.Errorf("sent something broken: %w", wrong)
		}
	}
	switch {
	case err != nil:
		fail(w, fmt.Sprintf("%s: the upstream proxy %v", request, err))
	case status == http.StatusNotFound || status == http.StatusGone:
		http.Error(w, fmt.Sprintf("%s: not found upstream: %s", request, words), status)
	case status != http.StatusOK:
		fail(w, fmt.Sprintf("%s: the upstream proxy answered with status %d: %s", request, status, words))
	default:
		w.Header().Set("Content-Type", contentTypes[request.Kind])
		http.ServeContent(w, r, "", time.Time{}, file)
	}
}

// fail answers that the fault is upstream, and says so in the log.
func fail(w http.ResponseWriter, message string) {
	fmt.Fprintln(os.Stderr, message)
	http.Error(w, message, http.StatusBadGateway)
}

// fetch has the upstream's answer written to file; its status, and where that is not 200 the start of its words.
func (g *Guard) fetch(r *http.Request, file *os.File) (status int, words string, err error) {
	at := g.base.JoinPath(r.URL.EscapedPath())
	request, err := http.NewRequestWithContext(r.Context(), http.MethodGet, at.String(), nil)
	if err != nil {
		return 0, "", err
	}
	answer, err := g.client.Do(request)
	if err != nil {
		return 0, "", fmt.Errorf("does not answer: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(answer.Body, quoted)) // what came of it will do
		return answer.StatusCode, strings.TrimSpace(strconv.QuoteToGraphic(string(said))), nil
	}
	size, err := io.Copy(file, io.LimitReader(answer.Body, maxFile+1))
	if err != nil {
		return 0, "", fmt.Errorf("broke off after %d bytes: %w", size, err)
	}
	if size > maxFile {
		return 0, "", fmt.Errorf("sent more than %d bytes", int64(maxFile))
	}
	_, err = file.Seek(0, io.SeekStart)
	return answer.StatusCode, "", err
}
