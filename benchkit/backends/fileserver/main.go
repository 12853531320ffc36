// Command fileserver is net/http's FileServer on a file, or on a folder of which it gives the listing: the third server of
// study 2. The files are its own: as many bytes as the body of the other servers has, and the same ones.
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

// maxEntries is the longest listing, in files.
const maxEntries = 100_000

func main() {
	var c content
	kit.Main("fileserver", c.serve, c.flags)
}

// content is what is served.
type content struct {
	root    string // folder for the files; empty: a temporary one
	entries int    // files in the folder that is listed; 0: one file is served
}

func (c *content) flags(flags *flag.FlagSet) {
	flags.StringVar(&c.root, "root", "", "`folder` for the files, made where it is missing; a temporary one unless given")
	flags.Func("listing", "serve the listing of a folder with so many `files`, in place of one file", func(value string) error {
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

// write makes the files, and leaves none of another start among them.
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
	atRoot string // the file that is served at /; empty: the listing
}

// ServeHTTP does what the other servers do, and leaves the answer to the FileServer.
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
		_, _ = w.Write(h.app.Body) // fails where the client has gone
	}
	h.app.Requests.Add(1)
}

// renamed is a request for the file where it was one for /, so that every server is asked for the same path. It copies no
// more than http.StripPrefix does.
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
