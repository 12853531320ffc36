package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// killGrace is the time for the go command to end after its request was cancelled.
const killGrace = time.Second

// Developer is a machine whose go command has the company's settings.
type Developer struct {
	config     *Config
	buildCache string
	pulls      atomic.Int64
	// removing counts the folders that are being removed in the background.
	removing sync.WaitGroup
}

// setUp creates the folders, and runs `go env -w` with the settings as every developer of the company does.
func setUp(ctx context.Context, config *Config) (*Developer, error) {
	if err := os.RemoveAll(config.Scratch); err != nil {
		return nil, err
	}
	telemetry := filepath.Join(config.Scratch, "home", ".config", "go", "telemetry")
	if err := os.MkdirAll(telemetry, 0o700); err != nil {
		return nil, err
	}
	// With telemetry, every pull would write counters into its short-lived home (https://go.dev/doc/telemetry).
	if err := os.WriteFile(filepath.Join(telemetry, "mode"), []byte("off"), 0o600); err != nil {
		return nil, err
	}
	cache, err := buildCache(ctx, config)
	if err != nil {
		return nil, err
	}
	developer := &Developer{config: config, buildCache: cache}
	var settings []string
	for name, value := range config.Settings {
		settings = append(settings, name+"="+value)
	}
	if len(settings) == 0 {
		return developer, nil
	}
	if printed, err := developer.run(ctx, config.Scratch, append([]string{"env", "-w"}, settings...)...); err != nil {
		return nil, fmt.Errorf("go env -w: %w: %s", err, printed)
	}
	return developer, nil
}

// buildCache returns the build cache of the login user's go command, as a developer would have it, so that not every proof
// compiles the standard library. It holds no modules.
func buildCache(ctx context.Context, config *Config) (string, error) {
	own, err := exec.CommandContext(ctx, config.Go, "env", "GOCACHE").Output()
	if cache := strings.TrimSpace(string(own)); err == nil && filepath.IsAbs(cache) {
		return cache, nil
	}
	cache := filepath.Join(config.Scratch, "build") // the user has none: no home, or GOCACHE is off
	return cache, os.MkdirAll(cache, 0o700)
}

// remove removes a folder in the background.
func (d *Developer) remove(folder string) {
	d.removing.Add(1)
	go func() {
		defer d.removing.Done()
		if err := os.RemoveAll(folder); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
}

// run runs the go command in a folder, which is also its GOPATH, hence its own module cache. It returns the output.
func (d *Developer) run(ctx context.Context, folder string, arguments ...string) (string, error) {
	command := exec.CommandContext(ctx, d.config.Go, arguments...)
	command.Dir = folder
	command.Env = append(inherited(),
		"HOME="+filepath.Join(d.config.Scratch, "home"), "XDG_CONFIG_HOME=",
		"GOENV="+filepath.Join(d.config.Scratch, "goenv"),
		"GOPATH="+filepath.Join(folder, "gopath"),
		"GOCACHE="+d.buildCache,
		"GOFLAGS=-modcacherw",
		"GOWORK=off",
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0",
		"LC_ALL=C",
	)
	for name, value := range d.config.Environment {
		command.Env = append(command.Env, name+"="+value)
	}
	var printed bytes.Buffer
	command.Stdout, command.Stderr = &printed, &printed
	command.WaitDelay = killGrace
	err := command.Run()
	return printed.String(), err
}

// inherited returns the environment of this process without settings of the go command, which would override those of
// `go env -w`. It keeps GOMAXPROCS, which is a setting of every Go program.
func inherited() []string {
	return slices.DeleteFunc(os.Environ(), func(entry string) bool {
		return strings.HasPrefix(entry, "GO") && !strings.HasPrefix(entry, "GOMAXPROCS=")
	})
}

// module creates a folder with a new main module.
func (d *Developer) module() (string, error) {
	folder, err := os.MkdirTemp(d.config.Scratch, "pull-")
	if err != nil {
		return "", err
	}
	return folder, os.WriteFile(filepath.Join(folder, "go.mod"), []byte("module example.com/program\n\ngo 1.20\n"), 0o600)
}

// pull downloads the next module into a clean module cache.
func (d *Developer) pull(ctx context.Context) error {
	folder, err := d.module()
	if err != nil {
		return err
	}
	defer d.remove(folder)
	wanted := strings.Replace(d.config.Pull, numbered, strconv.FormatInt(d.pulls.Add(1), 10), 1)
	return d.get(ctx, folder, wanted)
}

// get runs `go get` in the module of the folder.
func (d *Developer) get(ctx context.Context, folder string, modules ...string) error {
	printed, err := d.run(ctx, folder, append([]string{"get"}, modules...)...)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return err
	}
	all := strings.TrimSpace(printed + d.detail(ctx, printed))
	return &getError{all, explain(strings.Join(modules, ", "), all)}
}

// getError is the error of a failed `go get`: the whole output, and a short explanation.
type getError struct{ printed, short string }

func (e *getError) Error() string { return e.short }
