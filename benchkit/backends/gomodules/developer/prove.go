package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// sums is the file with the checksums of the modules.
const sums = "go.sum"

// prove downloads the modules of the proof twice, each time into a clean module cache, and builds and runs a program that
// uses them. It returns the checksum of all their checksums and reports to out. An error names the module and the step.
func (d *Developer) prove(ctx context.Context, out io.Writer) (string, error) {
	folder, err := d.module()
	if err != nil {
		return "", err
	}
	defer d.remove(folder)
	began := time.Now()
	if err := d.get(ctx, folder, d.config.Proof.Get...); err != nil {
		return "", err
	}
	fmt.Fprintf(out, "go get with a clean cache: %.2fs\n", time.Since(began).Seconds())
	if err := d.versions(ctx, folder, out); err != nil {
		return "", err
	}
	if err := d.build(ctx, folder, out); err != nil {
		return "", err
	}
	first, err := os.ReadFile(filepath.Join(folder, sums))
	if err != nil {
		return "", err
	}
	began = time.Now()
	second, err := d.pullAgain(ctx)
	if err != nil {
		return "", err
	}
	fmt.Fprintf(out, "go get with another clean cache: %.2fs\n", time.Since(began).Seconds())
	if !bytes.Equal(first, second) {
		return "", fmt.Errorf("checksums of two pulls differ:\n%s\nand\n%s", first, second)
	}
	fmt.Fprintf(out, "%s", first)
	hash := sha256.Sum256(first)
	return hex.EncodeToString(hash[:]), nil
}

// pullAgain downloads the modules into another clean cache and returns their checksums.
func (d *Developer) pullAgain(ctx context.Context) ([]byte, error) {
	folder, err := d.module()
	if err != nil {
		return nil, err
	}
	defer d.remove(folder)
	if err := d.get(ctx, folder, d.config.Proof.Get...); err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(folder, sums))
}

// versions compares the versions in use with the expected ones.
func (d *Developer) versions(ctx context.Context, folder string, out io.Writer) error {
	printed, err := d.run(ctx, folder, "list", "-m", "-json", "all")
	if err != nil {
		return fmt.Errorf("go list: %w: %s", err, printed)
	}
	used := map[string]string{}
	for decoder := json.NewDecoder(strings.NewReader(printed)); decoder.More(); {
		var module struct{ Path, Version string }
		if err := decoder.Decode(&module); err != nil {
			return fmt.Errorf("go list: %w: %s", err, printed)
		}
		used[module.Path] = module.Version
	}
	for _, name := range slices.Sorted(maps.Keys(d.config.Proof.Versions)) {
		if !regexp.MustCompile(d.config.Proof.Versions[name]).MatchString(used[name]) {
			return fmt.Errorf("%s is used at %q, expected %s", name, used[name], d.config.Proof.Versions[name])
		}
		fmt.Fprintf(out, "%s %s\n", name, used[name])
	}
	return nil
}

// build builds the program and runs it.
func (d *Developer) build(ctx context.Context, folder string, out io.Writer) error {
	if d.config.Proof.Program == "" {
		return nil
	}
	if err := os.WriteFile(filepath.Join(folder, "main.go"), []byte(d.config.Proof.Program), 0o600); err != nil {
		return err
	}
	began := time.Now()
	// Without version control and debug data: the folder is not a repository, and the program is not debugged.
	if printed, err := d.run(ctx, folder, "build", "-buildvcs=false", "-ldflags=-s -w", "-o", "program", "."); err != nil {
		return fmt.Errorf("go build: %w: %s", err, strings.TrimSpace(printed))
	}
	printed, err := exec.CommandContext(ctx, filepath.Join(folder, "program")).Output()
	if err != nil {
		return fmt.Errorf("cannot run the built program: %w", err)
	}
	if string(printed) != d.config.Proof.Output {
		return fmt.Errorf("the built program printed %q, expected %q", printed, d.config.Proof.Output)
	}
	fmt.Fprintf(out, "built and run in %.2fs:\n%s", time.Since(began).Seconds(), printed)
	return nil
}
