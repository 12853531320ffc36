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

// placeholder in a repository is replaced by the text that the * of its pattern matched.
const placeholder = "{name}"

// versionControl has the version control systems allowed in a go-import tag (https://go.dev/ref/mod#vcs-find).
var versionControl = []string{"bzr", "fossil", "git", "hg", "svn"}

// nameOfRepository is the text that a * may match: one path element that is neither like an option nor a hidden file.
var nameOfRepository = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._~-]*$`)

// Config is a vanity.yaml: the format of govanityurls (github.com/GoogleCloudPlatform/govanityurls), extended by patterns.
// Without display there is no go-source tag, which govanityurls derives for GitHub: pkg.go.dev knows it from the repository.
type Config struct {
	// Host is the host of the import paths; if absent, the host of the request.
	Host string `yaml:"host"`
	// CacheMaxAge is the time in seconds for which responses may be cached.
	CacheMaxAge *int64 `yaml:"cache_max_age"`
	// Paths are repositories by the path of their import paths.
	Paths map[string]Repository `yaml:"paths"`
	// Patterns match many repositories: one * in the last element of a path, and {name} in the repository.
	Patterns map[string]Repository `yaml:"patterns"`
}

// Repository is the repository of modules.
type Repository struct {
	Repo    string `yaml:"repo"`
	VCS     string `yaml:"vcs"`
	Display string `yaml:"display"`
}

// Import is the result for a path: the import path of the repository's root, and the repository.
type Import struct {
	Root string
	Repository
}

// parse parses a vanity.yaml. An error names the invalid path or pattern.
func parse(content []byte) (*Config, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	decoder.KnownFields(true)
	config := new(Config)
	if err := decoder.Decode(config); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if config.Host != "" && module.CheckImportPath(config.Host) != nil {
		return nil, fmt.Errorf("host: %q is not a host of import paths", config.Host)
	}
	if config.CacheMaxAge != nil && *config.CacheMaxAge < 0 {
		return nil, fmt.Errorf("cache_max_age: %d is negative", *config.CacheMaxAge)
	}
	if len(config.Paths)+len(config.Patterns) == 0 {
		return nil, errors.New("needs paths or patterns; found neither")
	}
	for _, checked := range []func(*Config) error{trimPaths, checkPaths, checkPatterns, checkOverlaps} {
		if err := checked(config); err != nil {
			return nil, err
		}
	}
	return config, nil
}

// trimPaths removes the slash at the end of paths, which govanityurls permits. It fails where a path is listed twice then.
func trimPaths(config *Config) error {
	trimmed := make(map[string]Repository, len(config.Paths))
	for _, at := range sorted(config.Paths) {
		name := at
		if at != "/" {
			name = strings.TrimSuffix(at, "/")
		}
		if _, listed := trimmed[name]; listed {
			return fmt.Errorf("paths: %s is listed with and without a slash at its end", name)
		}
		trimmed[name] = config.Paths[at]
	}
	config.Paths = trimmed
	return nil
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
		return fmt.Errorf("not a valid import path")
	}
	return nil
}

// complete checks a repository, and sets its version control system if that follows from its host.
func (r *Repository) complete() error {
	if r.VCS == "" {
		if at, err := url.Parse(r.Repo); err == nil && slices.Contains([]string{"github.com", "gitlab.com"}, at.Host) {
			r.VCS = "git"
		}
	}
	if !slices.Contains(versionControl, r.VCS) {
		known := strings.Join(versionControl, ", ")
		if r.VCS == "" {
			return fmt.Errorf("vcs: does not follow from %q; set it to one of %s", r.Repo, known)
		}
		return fmt.Errorf("vcs: unknown %q; one of %s", r.VCS, known)
	}
	at, err := url.Parse(strings.Replace(r.Repo, placeholder, "x", 1))
	if err != nil || at.Scheme == "" || at.Host == "" {
		return fmt.Errorf("repo: %q is not the URL of a repository", r.Repo)
	}
	if _, secret := at.User.Password(); secret {
		return fmt.Errorf("repo: the URL is public and must not contain a password")
	}
	if words := strings.Fields(r.Display); r.Display != "" && len(words) != 3 {
		return fmt.Errorf("display: expected three URLs, home, folder and file, in %q", r.Display)
	}
	return nil
}

// checkOverlaps rejects patterns of which two could match one path, because the repository would be ambiguous.
func checkOverlaps(config *Config) error {
	patterns := sorted(config.Patterns)
	for i, one := range patterns {
		for _, other := range patterns[i+1:] {
			if overlap(one, other) {
				return fmt.Errorf("patterns: %s and %s overlap: one path could match both", one, other)
			}
		}
	}
	return nil
}

// overlap reports whether some path, or one of its parents, could match both patterns.
func overlap(one, other string) bool {
	a, b := strings.Split(one, "/"), strings.Split(other, "/")
	for i := range min(len(a), len(b)) {
		if !elementsOverlap(a[i], b[i]) {
			return false
		}
	}
	return true
}

// elementsOverlap reports whether some text could match both elements, each of which may have one *.
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

// starred returns the part of text that the * of an element matches, and whether the whole element matches.
func starred(element, text string) (string, bool) {
	start, end, _ := strings.Cut(element, "*")
	if len(text) <= len(start)+len(end) || !strings.HasPrefix(text, start) || !strings.HasSuffix(text, end) {
		return "", false
	}
	return text[len(start) : len(text)-len(end)], true
}

// find looks a path up. A listed path takes precedence over a pattern, a longer listed path over a shorter one.
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

// match returns the part of a path that a pattern matches, and the text that its * matches.
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
