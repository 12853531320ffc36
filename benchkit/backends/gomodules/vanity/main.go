// Command vanity tells the go command the repository of a module (https://go.dev/ref/mod#vcs-find) for import paths of your
// own host: `GET /go/name?go-get=1`.
//
// It reads a vanity.yaml as govanityurls does (host, cache_max_age, paths with repo, vcs and display), and extends it by
// patterns, so that a new repository needs no new line:
//
//	host: mycompany.example
//	paths:
//	  /go/old: {repo: "ssh://git@vcs.example/old-place", vcs: git}
//	patterns:
//	  /go/*: {repo: "ssh://git@vcs.example/{name}", vcs: git}
package main

import (
	"context"
	"flag"
	"fmt"
	"html/template"
	"net/http"
	"os"
	"strings"

	"benchkit/backends/gomodules/internal/serve"
)

// defaultMaxAge is the default time in seconds for which responses may be cached: a day.
const defaultMaxAge = 86400

var page = template.Must(template.New("page").Parse(`<!DOCTYPE html>
<html>
<head>
<meta charset="utf-8">
<meta name="go-import" content="{{.Prefix}} {{.VCS}} {{.Repo}}">
{{- if .Display}}
<meta name="go-source" content="{{.Prefix}} {{.Display}}">
{{- end}}
<title>{{.Prefix}}</title>
</head>
<body>
<p>The Go module <code>{{.Prefix}}</code> comes from <code>{{.Repo}}</code> ({{.VCS}}).</p>
</body>
</html>
`))

func main() { serve.Exit("vanity", run()) }

func run() error {
	listen := flag.String("listen", "127.0.0.1:8080", "address and port")
	file := flag.String("config", "vanity.yaml", "the vanity.yaml")
	check := flag.Bool("check", false, "only check the file")
	flag.Parse()
	content, err := os.ReadFile(*file)
	if err != nil {
		return err
	}
	config, err := parse(content)
	if err != nil {
		return fmt.Errorf("%s: %w", *file, err)
	}
	if *check {
		return nil
	}
	return serve.Run(context.Background(), *listen, serve.Log(os.Stderr, handler(config)))
}

// handler responds with the tags for the requested path, and with 404 if there is no such module.
func handler(config *Config) http.Handler {
	maxAge := int64(defaultMaxAge)
	if config.CacheMaxAge != nil {
		maxAge = *config.CacheMaxAge
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		found, ok := config.find(r.URL.Path)
		host := config.Host
		if host == "" {
			host = r.Host
		}
		if !ok {
			http.Error(w, fmt.Sprintf("no such module: %s%s", host, r.URL.Path), http.StatusNotFound)
			return
		}
		w.Header().Set("Cache-Control", fmt.Sprintf("public, max-age=%d", maxAge))
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		view := struct {
			Prefix, VCS, Repo, Display string
		}{host + found.Root, found.VCS, found.Repo, strings.Join(strings.Fields(found.Display), " ")}
		// An error means that the client has closed the connection.
		_ = page.Execute(w, view)
	})
}
