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

// numbered is the placeholder in the module to pull for a number that is new in each pull.
const numbered = "{n}"

// Config describes a developer's machine and the module to pull.
type Config struct {
	// Go is the path of the go command.
	Go string `json:"go"`
	// Scratch is a folder for the module caches of the pulls, created at the start.
	Scratch string `json:"scratch"`
	// Settings are the values for `go env -w`, as every developer of the company sets them.
	Settings map[string]string `json:"settings"`
	// Environment has the other variables of the go command: credentials, keys, certificates.
	Environment map[string]string `json:"environment"`
	// Pull is the module to pull, with its version; {n} is a new number in each pull.
	Pull string `json:"pull"`
	// Proof must succeed before the server starts.
	Proof Proof `json:"proof"`
}

// Proof is a program that uses modules of the service: they are downloaded into a clean cache, and it is built and run.
type Proof struct {
	// Get has the arguments of `go get`.
	Get []string `json:"get"`
	// Versions has a regular expression for the version of each module that is then in use.
	Versions map[string]string `json:"versions"`
	// Program is a main.go that uses the modules, and Output is its expected output.
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
