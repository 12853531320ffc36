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

// check says what is wrong with the file that an upstream sent for a request; nil where it is what it should be.
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
			return errors.New("a go.mod without a module line")
		}
	case "info", "latest":
		return checkInfo(content)
	case "list":
		for line := range strings.Lines(string(content)) {
			if fields := strings.Fields(line); len(fields) > 0 && !semver.IsValid(fields[0]) {
				return fmt.Errorf("%.40q is no version", fields[0])
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
		return fmt.Errorf("no JSON document: %w", err)
	}
	if !semver.IsValid(info.Version) {
		return fmt.Errorf("%.40q is no version", info.Version)
	}
	return nil
}

// checkZip opens the archive and holds names and sizes against the rules for modules; a half one has no directory.
func checkZip(request Request, file string) error {
	checked, err := zip.CheckZip(module.Version{Path: request.Module, Version: request.Version}, file)
	if err != nil {
		return err
	}
	return checked.Err()
}
