package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
	"golang.org/x/mod/zip"
)

// check returns an error if the file that an upstream has sent is not a valid response to the request.
func check(request Request, file string) error {
	if request.Kind == "zip" {
		return checkZip(request, file)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	switch request.Kind {
	case "mod":
		if modfile.ModulePath(content) == "" {
			return errors.New("not a go.mod: it has no module line")
		}
	case "info", "latest":
		return checkInfo(content)
	case "list":
		for line := range strings.Lines(string(content)) {
			if fields := strings.Fields(line); len(fields) > 0 && !semver.IsValid(fields[0]) {
				return fmt.Errorf("%.40q is not a version", fields[0])
			}
		}
	}
	return nil
}

func checkInfo(content []byte) error {
	var info struct {
		Version string
		Time    time.Time
	}
	if err := json.Unmarshal(content, &info); err != nil {
		return fmt.Errorf("not a JSON document: %w", err)
	}
	if !semver.IsValid(info.Version) {
		return fmt.Errorf("%.40q is not a version", info.Version)
	}
	return nil
}

// checkZip opens the archive and checks names and sizes by the rules for modules; a truncated archive has no directory.
func checkZip(request Request, file string) error {
	checked, err := zip.CheckZip(module.Version{Path: request.Module, Version: request.Version}, file)
	if err != nil {
		return err
	}
	return checked.Err()
}
