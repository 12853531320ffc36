package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"golang.org/x/mod/module"
)

// placeholder stands in a repository for what the * of its pattern matched.
const placeholder = "{name}"

// versionControl is what the go command takes in a go-import tag (https://go.dev/ref/mod#vcs-find).
var versionControl = []string{"bzr", "fossil", "git", "hg", "svn"}

// nameOfRepository is what a * may match: one path element that no server takes for an option or a hidden file.
var nameOfRepository = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._~-]*$`)

// Config is a vanity.yaml: the published format, and patterns.
type Config struct {
	// Host is the host of the import paths; where it is absent, the one that a request names.
	Host string `yaml:"host"`
	// CacheMaxAge is how many seconds answers may be kept.
	CacheMaxAge *int64 `yaml:"cache_max_age"`
	// Paths are repositories by the path of their import paths.
	Paths map[string]Repository `yaml:"paths"`
	// Patterns are many repositories at once: one * in the last element of a path, and {name} in the repository.
	Patterns map[string]Repository `yaml:"patterns"`
}

// Repository is where modules come from.
type Repository struct {
	Repo    string `yaml:"repo"`
	VCS     string `yaml:"vcs"`
	Display string `yaml:"display"`
}

// Import is what is found for a path: the path that the repository's root has, and the repository.
type Import struct {
	Root string
	Repository
}

// parse reads a vanity.yaml. An error names the path or pattern that is wrong.
func parse(content []byte) (*Config, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	decoder.KnownFields(true)
	config := new(Config)
	if err := decoder.Decode(config); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if config.Host != "" && module.CheckImportPath(config.Host) != nil {
		return nil, fmt.Errorf("host: %q is no host of import paths", config.Host)
	}
	if config.CacheMaxAge != nil && *config.CacheMaxAge < 0 {
		return nil, fmt.Errorf("cache_max_age: %d is negative", *config.CacheMaxAge)
	}
	if len(config.Paths)+len(config.Patterns) == 0 {
		return nil, errors.New("neither paths nor patterns: there is nothing to answer with")
	}
	for _, checked := range []func(*Config) error{checkPaths, checkPatterns, checkOverlaps} {
		if err := checked(config); err != nil {
			return nil, err
		}
	}
	return config, nil
}

func checkPaths(config *Config) error {
	for _, at := range sorted(config.Paths) {
		repository := config.Paths[at]
		if err := checkPath(at); err != nil {
			return fmt.Errorf("paths: %s: %w", at, err)
		}
		if err := repository.complete(); err != nil {
			return fmt.Errorf("paths: %s: %w", at, err)
		}
		config.Paths[at] = repository
	}
	return nil
}

func checkPatterns(config *Config) error {
	for _, pattern := range sorted(config.Patterns) {
		repository := config.Patterns[pattern]
		folder, last := path.Split(pattern)
		switch {
		case strings.Count(pattern, "*") != 1 || !strings.Contains(last, "*"):
			return fmt.Errorf("patterns: %s: expected one *, in the last element, as in /go/*", pattern)
		case strings.Count(repository.Repo, placeholder) != 1:
			return fmt.Errorf("patterns: %s: repo: expected %s once in %q", pattern, placeholder, repository.Repo)
		}
		if err := checkPath(folder + strings.Replace(last, "*", "x", 1)); err != nil {
			return fmt.Errorf("patterns: %s: %w", pattern, err)
		}
		if err := repository.complete(); err != nil {
			return fmt.Errorf("patterns: %s: %w", pattern, err)
		}
		config.Patterns[pattern] = repository
	}
	return nil
}

func checkPath(at string) error {
	if !strings.HasPrefix(at, "/") || path.Clean(at) != at {
		return fmt.Errorf("expected a path like /go/name, without a slash at its end")
	}
	if at != "/" && module.CheckImportPath("x"+at) != nil {
		return fmt.Errorf("no import path can have this path")
	}
	return nil
}

// complete checks a repository, and says which version control it is where that follows from its host.
func (r *Repository) complete() error {
	if r.VCS == "" {
		if at, err := url.Parse(r.Repo); err == nil && slices.Contains([]string{"github.com", "gitlab.com"}, at.Host) {
			r.VCS = "git"
		}
	}
	if !slices.Contains(versionControl, r.VCS) {
		known := strings.Join(versionControl, ", ")
		if r.VCS == "" {
			return fmt.Errorf("vcs: cannot be told from %q; one of %s", r.Repo, known)
		}
		return fmt.Errorf("vcs: unknown %q; one of %s", r.VCS, known)
	}
	at, err := url.Parse(strings.Replace(r.Repo, placeholder, "x", 1))
	if err != nil || at.Scheme == "" || at.Host == "" {
		return fmt.Errorf("repo: %q is no URL of a repository", r.Repo)
	}
	if _, secret := at.User.Password(); secret {
		return fmt.Errorf("repo: a password has no place in it: everybody is told")
	}
	if words := strings.Fields(r.Display); r.Display != "" && len(words) != 3 {
		return fmt.Errorf("display: expected three URLs, home, folder and file, in %q", r.Display)
	}
	return nil
}

// checkOverlaps refuses patterns of which two could match one path: which repository it means would be left to chance.
func checkOverlaps(config *Config) error {
	patterns := sorted(config.Patterns)
	for i, one := range patterns {
		for _, other := range patterns[i+1:] {
			if overlap(one, other) {
				return fmt.Errorf("patterns: %s and %s overlap: a path could mean either", one, other)
			}
		}
	}
	return nil
}

// overlap reports whether a path, or one above it, could match both patterns.
func overlap(one, other string) bool {
	a, b := strings.Split(one, "/"), strings.Split(other, "/")
	for i := range min(len(a), len(b)) {
		if !elementsOverlap(a[i], b[i]) {
			return false
		}
	}
	return true
}

// elementsOverlap reports whether one text could match both, of which each may hold one *.
func elementsOverlap(one, other string) bool {
	startOne, endOne, hasOne := strings.Cut(one, "*")
	startOther, endOther, hasOther := strings.Cut(other, "*")
	switch {
	case !hasOne && !hasOther:
		return one == other
	case !hasOne:
		_, matched := starred(other, one)
		return matched
	case !hasOther:
		_, matched := starred(one, other)
		return matched
	}
	starts := strings.HasPrefix(startOne, startOther) || strings.HasPrefix(startOther, startOne)
	ends := strings.HasSuffix(endOne, endOther) || strings.HasSuffix(endOther, endOne)
	return starts && ends
}

// starred is what the * of an element matches in text, and whether the whole does.
func starred(element, text string) (string, bool) {
	start, end, _ := strings.Cut(element, "*")
	if len(text) <= len(start)+len(end) || !strings.HasPrefix(text, start) || !strings.HasSuffix(text, end) {
		return "", false
	}
	return text[len(start) : len(text)-len(end)], true
}

// find looks a path up. A listed path comes before a pattern, a longer listed path before a shorter one.
func (c *Config) find(at string) (Import, bool) {
	at = strings.TrimSuffix(at, "/")
	for root := at; strings.HasPrefix(root, "/"); root = root[:strings.LastIndexByte(root, '/')] {
		if repository, listed := c.Paths[root]; listed {
			return Import{root, repository}, true
		}
	}
	if repository, listed := c.Paths["/"]; listed {
		return Import{"", repository}, true
	}
	for pattern, repository := range c.Patterns {
		if root, name, matched := match(pattern, at); matched {
			repository.Repo = strings.Replace(repository.Repo, placeholder, name, 1)
			return Import{root, repository}, true
		}
	}
	return Import{}, false
}

// match is the part of a path that a pattern matches, and what its * stands for.
func match(pattern, at string) (root, name string, matched bool) {
	folder, last := path.Split(pattern)
	rest, below := strings.CutPrefix(at, folder)
	if !below {
		return "", "", false
	}
	element, _, _ := strings.Cut(rest, "/")
	name, matched = starred(last, element)
	if !matched || !nameOfRepository.MatchString(name) {
		return "", "", false
	}
	return folder + element, name, true
}

func sorted(repositories map[string]Repository) []string {
	var names []string
	for name := range repositories {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
