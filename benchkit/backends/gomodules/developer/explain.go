package main

import (
	"fmt"
	"regexp"
	"strings"
)

// reason is what the words of go, git, ssh or of our own servers mean: the step that failed, and why. A group of the
// expression may stand in why, as $1.
type reason struct {
	words *regexp.Regexp
	step  string
	why   string
}

// reasons are in the order in which they are looked for: the cause before what it leads to.
var reasons = []reason{
	{regexp.MustCompile(`REMOTE HOST IDENTIFICATION HAS CHANGED|Host key verification failed`), "git over SSH",
		"the git server's host key is not the one that was pinned"},
	{regexp.MustCompile(`no such repository: (\S+)`), "git over SSH", "the git server has no repository $1"},
	{regexp.MustCompile(`Permission denied \(`), "git over SSH", "the git server does not take the key"},
	{regexp.MustCompile(`ssh: (?:connect to host|Could not resolve hostname) (\S+).*`), "git over SSH", "the git server does not answer ($0)"},
	{regexp.MustCompile(`no module is called (\S+)`), "vanity import", "no repository is known for $1"},
	{regexp.MustCompile(`unrecognized import path|no go-import meta tags|parsing .*go-import`), "vanity import",
		"the vanity server says of no repository"},
	{regexp.MustCompile(`the upstream proxy (.*)`), "upstream proxy", "it $1"},
	{regexp.MustCompile(`not found upstream`), "upstream proxy", "it has no such module"},
	{regexp.MustCompile(`invalid version: unknown revision (\S+)`), "git over SSH", "the repository has no $1"},
	{regexp.MustCompile(`checksum mismatch`), "checksum", "it is not the one of before"},
	{regexp.MustCompile(`x509: .*|tls: .*`), "TLS", "$0"},
	{regexp.MustCompile(`401 Unauthorized`), "access", "the proxy does not take user and password"},
	{regexp.MustCompile(`404 Not Found`), "module proxy", "there is no such module, or no right to it"},
	{regexp.MustCompile(`50[0-9] [A-Z][A-Za-z ]+`), "module proxy", "it answered $0"},
	{regexp.MustCompile(`connection refused|no route to host|i/o timeout`), "module proxy", "it does not answer ($0)"},
}

// named finds the module that a line of the go command is about.
var named = regexp.MustCompile(`(?m)^go: (?:module |downloading )?([a-z0-9.-]+\.[a-z]+/[^\s:@]+(?:@[^\s:]+)?):`)

// explain says in one line at which step the go command failed, for which module and why.
func explain(asked, output string) string {
	about := asked
	if found := named.FindStringSubmatch(output); found != nil {
		about = found[1]
	}
	for _, each := range reasons {
		if at := each.words.FindStringSubmatchIndex(output); at != nil {
			why := string(each.words.ExpandString(nil, each.why, output, at))
			return fmt.Sprintf("%s failed at %s: %s", about, each.step, why)
		}
	}
	lines := strings.Split(strings.TrimSpace(output), "\n")
	return fmt.Sprintf("%s failed: %s", about, strings.TrimSpace(lines[len(lines)-1]))
}
