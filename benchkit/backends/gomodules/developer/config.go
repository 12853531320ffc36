package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// numbered stands in the module that is pulled for a number that no pull had before.
const numbered = "{n}"

// Config is what a developer's machine is like, and what is pulled on it.
type Config struct {
	// Go is the go command.
	Go string `json:"go"`
	// Scratch is a folder of the developer's own, made at the start and full of clean module caches.
	Scratch string `json:"scratch"`
	// Settings are those that `go env -w` is given, as every developer of the company runs it.
	Settings map[string]string `json:"settings"`
	// Environment is what else the go command finds around it: credentials, keys, certificates.
	Environment map[string]string `json:"environment"`
	// Pull is what every pull gets: a module with its version; {n} in it is another number for each.
	Pull string `json:"pull"`
	// Proof is what has to work before anything is pulled.
	Proof Proof `json:"proof"`
}

// Proof is a program on modules of the service: got with a clean module cache, built and run.
type Proof struct {
	// Get is what `go get` is given.
	Get []string `json:"get"`
	// Versions are the modules that are then in use, each with an expression for its version.
	Versions map[string]string `json:"versions"`
	// Program is a main.go that uses them, and Output is what it prints.
	Program string `json:"program"`
	Output  string `json:"output"`
}

func readConfig(file string) (*Config, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	config := new(Config)
	decoder := json.NewDecoder(strings.NewReader(string(content)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(config); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return config, config.check()
}

func (c *Config) check() error {
	if !filepath.IsAbs(c.Go) || !filepath.IsAbs(c.Scratch) {
		return errors.New("go and scratch: expected absolute paths")
	}
	if name, version, found := strings.Cut(c.Pull, "@"); !found || name == "" || version == "" {
		return fmt.Errorf("pull: expected a module and its version, not %q", c.Pull)
	}
	for name, version := range c.Proof.Versions {
		if _, err := regexp.Compile(version); err != nil {
			return fmt.Errorf("proof: versions: %s: %w", name, err)
		}
	}
	return nil
}
