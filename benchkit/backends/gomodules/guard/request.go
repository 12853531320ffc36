package main

import (
	"errors"
	"path"
	"strings"

	"golang.org/x/mod/module"
)

// Request is a request to a module proxy (https://go.dev/ref/mod#goproxy-protocol).
type Request struct {
	Module  string
	Version string
	// Kind is one of list, latest, info, mod, zip.
	Kind string
}

// String returns the module and the kind, for messages: `github.com/x/y@v1.0.0 (zip)`.
func (r Request) String() string {
	if r.Version == "" {
		return r.Module + " (" + r.Kind + ")"
	}
	return r.Module + "@" + r.Version + " (" + r.Kind + ")"
}

// parseRequest parses the decoded path of a request.
func parseRequest(at string) (Request, error) {
	escaped, what, found := strings.Cut(strings.TrimPrefix(at, "/"), "/@")
	if !found {
		return Request{}, errors.New("not a path of a module proxy")
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
		return Request{}, errors.New("not a path of a module proxy")
	}
	version, err := module.UnescapeVersion(strings.TrimSuffix(file, "."+kind))
	if err != nil {
		return Request{}, err
	}
	return Request{name, version, kind}, nil
}
