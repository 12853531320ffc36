package main

import (
	"errors"
	"path"
	"strings"

	"golang.org/x/mod/module"
)

// Request is what a module proxy is asked for (https://go.dev/ref/mod#goproxy-protocol).
type Request struct {
	Module  string
	Version string
	// Kind is one of list, latest, info, mod, zip.
	Kind string
}

// String names the module and the step, for messages: `github.com/x/y@v1.0.0 (zip)`.
func (r Request) String() string {
	if r.Version == "" {
		return r.Module + " (" + r.Kind + ")"
	}
	return r.Module + "@" + r.Version + " (" + r.Kind + ")"
}

// parseRequest reads the path of a request, which is without escapes of URLs.
func parseRequest(at string) (Request, error) {
	escaped, what, found := strings.Cut(strings.TrimPrefix(at, "/"), "/@")
	if !found {
		return Request{}, errors.New("no path of a module proxy")
	}
	name, err := module.UnescapePath(escaped)
	if err != nil {
		return Request{}, err
	}
	switch what {
	case "latest":
		return Request{Module: name, Kind: "latest"}, nil
	case "v/list":
		return Request{Module: name, Kind: "list"}, nil
	}
	file, below := strings.CutPrefix(what, "v/")
	kind := strings.TrimPrefix(path.Ext(file), ".")
	if !below || (kind != "info" && kind != "mod" && kind != "zip") {
		return Request{}, errors.New("no path of a module proxy")
	}
	version, err := module.UnescapeVersion(strings.TrimSuffix(file, "."+kind))
	if err != nil {
		return Request{}, err
	}
	return Request{name, version, kind}, nil
}
