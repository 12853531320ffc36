// Command fileserver is net/http's FileServer on a file, or on a folder whose listing it serves: the third server of
// study 2. It creates the files itself, with the same bytes as the body of the other servers.
package main

import (
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"

	"benchkit/backends/kit"
)

// maxEntries is the maximum number of files in a listing.
const maxEntries = 100_000

func main() {
	var c content
	kit.Main("fileserver", c.serve, c.flags)
}

// content holds the options of the files to serve.
type content struct {
	root    string // folder for the files; empty: a temporary one
	entries int    // files in the listed folder; 0: one file is served
}

func (c *content) flags(flags *flag.FlagSet) {
	flags.StringVar(&c.root, "root", "", "`folder` for the files, made where it is missing; a temporary one unless given")
	flags.Func("listing", "serve the listing of a folder with this number of `files` instead of one file", func(value string) error {
		entries, err := strconv.Atoi(value)
		if err != nil || entries < 1 || entries > maxEntries {
			return fmt.Errorf("expected files from 1 to %d", maxEntries)
		}
		c.entries = entries
		return nil
	})
}

// serve serves without timeouts, as the study did.
func (c *content) serve(app *kit.App) error {
	if c.root == "" {
		folder, err := os.MkdirTemp("", "fileserver")
		if err != nil {
			return err
		}
		c.root = folder
		app.AtEnd(func() { _ = os.RemoveAll(folder) })
	}
	names, err := c.write(app.Body)
	if err != nil {
		return err
	}
	listener, err := app.Open()
	if err != nil {
		return err
	}
	handler := &handler{app: app, files: http.FileServer(http.Dir(c.root))}
	if c.entries == 0 {
		handler.atRoot = "/" + names[0]
	}
	return http.Serve(listener, handler)
}

// write creates the files, and removes those of an earlier start.
func (c *content) write(body []byte) (names []string, err error) {
	for i := range max(1, c.entries) {
		names = append(names, fmt.Sprintf("file%05d.txt", i+1))
	}
	old, err := filepath.Glob(filepath.Join(c.root, "file*.txt"))
	for _, path := range old {
		err = errors.Join(err, os.Remove(path))
	}
	err = errors.Join(err, os.MkdirAll(c.root, 0o755))
	for _, name := range names {
		err = errors.Join(err, os.WriteFile(filepath.Join(c.root, name), body, 0o644))
	}
	return names, err
}

type handler struct {
	app    *kit.App
	files  http.Handler
	atRoot string // the file served at /; empty: the listing
}

// ServeHTTP does the work of a request as the other servers do, and has the FileServer respond.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status := h.app.Status(r.Context().Done())
	if status == 0 {
		return
	}
	h.app.SetHeader(w.Header())
	if status == http.StatusOK {
		h.files.ServeHTTP(w, h.renamed(r))
	} else {
		w.Header().Set("Content-Length", strconv.Itoa(len(h.app.Body)))
		w.WriteHeader(status)
		_, _ = w.Write(h.app.Body) // fails if the client has closed the connection
	}
	h.app.Requests.Add(1)
}

// renamed changes a request for / into one for the file, so that all servers get requests for the same path. It copies as
// little as http.StripPrefix does.
func (h *handler) renamed(r *http.Request) *http.Request {
	if h.atRoot == "" || r.URL.Path != "/" {
		return r
	}
	request, address := new(http.Request), new(url.URL)
	*request, *address = *r, *r.URL
	address.Path, address.RawPath = h.atRoot, ""
	request.URL = address
	return request
}
