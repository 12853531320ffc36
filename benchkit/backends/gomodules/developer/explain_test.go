package main

import "testing"

// The outputs are recorded with go1.26.8, git 2.39.5 and OpenSSH 9.2p1; those through the module proxy with goproxy 2.0.7
// and nginx 1.22.1.
func TestFailuresAreExplainedInALine(t *testing.T) {
	for _, test := range []struct{ name, output, expected string }{
		{
			"an unreachable git server",
			`go: mycompany.com/go/module1@v1.99.0: invalid version: git ls-remote -q --end-of-options ssh://root@127.0.0.1:2222/module1 in /tmp/x/p/pkg/mod/cache/vcs/30cb: exit status 128:
	ssh: connect to host 127.0.0.1 port 2222: Connection refused
	fatal: Could not read from remote repository.

	Please make sure you have the correct access rights
	and the repository exists.`,
			"mycompany.com/go/module1@v1.99.0 failed at git over SSH: the git server does not respond (ssh: connect to host 127.0.0.1 port 2222: Connection refused)",
		},
		{
			"an unknown message",
			"go: downloading a.example/x v1.0.0\ngo: a.example/x@v1.0.0: something new\n",
			"a.example/x@v1.0.0 failed: go: a.example/x@v1.0.0: something new",
		},
		{"no output", "", "asked@v1 failed: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := explain("asked@v1", test.output); got != test.expected {
				t.Errorf("got      %s\nexpected %s", got, test.expected)
			}
		})
	}
}
