package main

import (
	"fmt"
	"regexp"
	"strings"
)

// reason maps a message of go, git, ssh or a server of this stack to the step that failed and the cause, which may contain
// a group of the expression as $1.
type reason struct {
	message *regexp.Regexp
	step    string
	why     string
}

// reasons are searched in this order: causes come before their consequences.
var reasons = []reason{
	{regexp.MustCompile(`REMOTE HOST IDENTIFICATION HAS CHANGED|Host key verification failed`), "git over SSH",
		"the git server's host key differs from the expected one"},
	{regexp.MustCompile(`no such repository: (\S+)`), "git over SSH", "the git server has no repository $1"},
	{regexp.MustCompile(`Permission denied \(`), "git over SSH", "the git server rejects the key"},
	{regexp.MustCompile(`ssh: (?:connect to host|Could not resolve hostname) (\S+).*`), "git over SSH", "the git server does not respond ($0)"},
	{regexp.MustCompile(`no such module: (\S+)`), "vanity import", "no repository is known for $1"},
	{regexp.MustCompile(`unrecognized import path|no go-import meta tags|parsing .*go-import`), "vanity import",
		"the vanity import server returns no repository"},
	{regexp.MustCompile(`the upstream proxy (.*)`), "upstream proxy", "it $1"},
	{regexp.MustCompile(`not found upstream`), "upstream proxy", "it has no such module"},
	{regexp.MustCompile(`invalid version: unknown revision (\S+)`), "git over SSH", "the repository has no $1"},
	{regexp.MustCompile(`checksum mismatch`), "checksum", "it differs from the one of an earlier pull"},
	{regexp.MustCompile(`x509: .*|tls: .*`), "TLS", "$0"},
	{regexp.MustCompile(`401 Unauthorized`), "access", "the proxy rejects user and password"},
	{regexp.MustCompile(`404 Not Found`), "module proxy", "there is no such module, or no right to it"},
	{regexp.MustCompile(`50[0-9] [A-Z][A-Za-z ]+`), "module proxy", "it responded with $0"},
	{regexp.MustCompile(`connection refused|no route to host|i/o timeout`), "module proxy", "it does not respond ($0)"},
}

// named finds the module in a line of the go command's output.
var named = regexp.MustCompile(`(?m)^go: (?:module |downloading )?([a-z0-9.-]+\.[a-z]+/[^\s:@]+(?:@[^\s:]+)?):`)

// explain returns one line that names the module, the step at which the go command failed, and the cause.
func explain(module, output string) string {
	about := module
	if found := named.FindStringSubmatch(output); found != nil {
		about = found[1]
	}
	for _, each := range reasons {
		if at := each.message.FindStringSubmatchIndex(output); at != nil {
			why := string(each.message.ExpandString(nil, each.why, output, at))
			return fmt.Sprintf("%s failed at %s: %s", about, each.step, why)
		}
	}
	lines := strings.Split(strings.TrimSpace(output), "\n")
	return fmt.Sprintf("%s failed: %s", about, strings.TrimSpace(lines[len(lines)-1]))
}
