// Command guard stands between a module proxy and the public proxy that it asks, and lets nothing broken through.
//
// goproxy 2.0.7 keeps for ever whatever its upstream answers with status 200: a zip of which half is missing, or a
// sign-in page, is then served to everybody until somebody empties the cache. The guard takes an answer in whole, holds
// it against what the go command expects of it, and answers with 502 and the module's name where it does not fit, which
// no proxy keeps. While its upstream is away, it answers from memory what versions there are, and what there is not.
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
	guard := &Guard{base: base, scratch: *scratch, client: &http.Client{Timeout: upstreamTimeout}, memory: newMemory()}
	return serve.Run(context.Background(), *listen, serve.Log(os.Stderr, guard))
}

// Guard answers with what its upstream has, once that is checked; and with what it had, where that is away.
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
			err = fmt.Errorf("sent something broken: %w", wrong)
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
		g.fallBack(w, request, fmt.Errorf("answered with status %d: %s", status, words))
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

// fallBack answers with what the upstream said before, or with what is wrong with it now. The log has that in any case.
func (g *Guard) fallBack(w http.ResponseWriter, request Request, err error) {
	message := fmt.Sprintf("%s: the upstream proxy %v", request, err)
	fmt.Fprintln(os.Stderr, message)
	if before, known := g.memory.find(request.String()); known {
		send(w, request, before)
		return
	}
	http.Error(w, message, http.StatusBadGateway)
}

// send sends an answer that is remembered.
func send(w http.ResponseWriter, request Request, given answer) {
	contentType := contentTypes[request.Kind]
	if given.status != http.StatusOK {
		contentType = contentTypes["list"] // words
	}
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(given.status)
	_, _ = w.Write(given.content) // the reader has gone if this fails
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
