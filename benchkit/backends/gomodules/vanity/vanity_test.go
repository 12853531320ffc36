package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

const published = `
host: mycompany.com
cache_max_age: 60
paths:
  /go/module1:
    repo: ssh://admin@vcs.example/module1
    vcs: git
  /go/old:
    repo: https://github.com/example/old
    display: "https://example.com https://example.com/tree/master{/dir} https://example.com/blob/master{/dir}/{file}#L{line}"
  /go/old/apart:
    repo: ssh://admin@vcs.example/apart
    vcs: hg
patterns:
  /go/*:
    repo: ssh://git@10.0.0.3:2222/{name}
    vcs: git
  /team/lib-*:
    repo: ssh://git@10.0.0.3:2222/team/{name}.git
    vcs: git
`

func configured(t *testing.T, text string) *Config {
	t.Helper()
	config, err := parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func TestEveryPathFindsItsRepository(t *testing.T) {
	config := configured(t, published)
	for _, test := range []struct{ at, root, vcs, repo string }{
		{"/go/module1", "/go/module1", "git", "ssh://admin@vcs.example/module1"},
		{"/go/module1/sub/package", "/go/module1", "git", "ssh://admin@vcs.example/module1"},
		{"/go/module1/", "/go/module1", "git", "ssh://admin@vcs.example/module1"},
		{"/go/old/x", "/go/old", "git", "https://github.com/example/old"},
		{"/go/old/apart/x", "/go/old/apart", "hg", "ssh://admin@vcs.example/apart"},
		{"/go/module10", "/go/module10", "git", "ssh://git@10.0.0.3:2222/module10"},
		{"/go/any.thing_2/v2/x", "/go/any.thing_2", "git", "ssh://git@10.0.0.3:2222/any.thing_2"},
		{"/team/lib-net", "/team/lib-net", "git", "ssh://git@10.0.0.3:2222/team/net.git"},
	} {
		found, ok := config.find(test.at)
		if !ok || found.Root != test.root || found.VCS != test.vcs || found.Repo != test.repo {
			t.Errorf("%s: found %+v, %v", test.at, found, ok)
		}
	}
}

func TestInvalidModulesAreNotFound(t *testing.T) {
	config := configured(t, published)
	for _, at := range []string{"", "/", "/go", "/go/", "/goo/x", "/team/lib-", "/team/x", "/go/-oProxyCommand=x",
		"/go/..", "/go/.git", "/go/a b", "/go/\"><script>", "//go/module1", "/go//x"} {
		if found, ok := config.find(at); ok {
			t.Errorf("%q: found %+v", at, found)
		}
	}
}

// A file as govanityurls documents it: no host, a slash at the end of a path, and a vcs that follows from the host alone.
func TestAFileOfGovanityurlsIsReadAsItIs(t *testing.T) {
	config := configured(t, `
cache_max_age: 3600
paths:
  /foo/:
    repo: https://github.com/example/foo
    display: "https://github.com/example/foo https://github.com/example/foo/tree/master{/dir} https://github.com/example/foo/blob/master{/dir}/{file}#L{line}"
    vcs: git
  /portmidi:
    repo: https://github.com/example/portmidi
`)
	for at, repo := range map[string]string{
		"/foo": "https://github.com/example/foo", "/foo/bar": "https://github.com/example/foo",
		"/portmidi/": "https://github.com/example/portmidi",
	} {
		if found, ok := config.find(at); !ok || found.Repo != repo || found.VCS != "git" || strings.HasSuffix(found.Root, "/") {
			t.Errorf("%s: found %+v, %v", at, found, ok)
		}
	}
}

func TestTheRootMayBeListed(t *testing.T) {
	config := configured(t, "host: a.example\npaths: {/: {repo: 'ssh://git@b.example/all', vcs: git}}")
	if found, ok := config.find("/x/y"); !ok || found.Root != "" || found.Repo != "ssh://git@b.example/all" {
		t.Errorf("found %+v, %v", found, ok)
	}
}

func TestInvalidFilesAreRejected(t *testing.T) {
	for _, test := range []struct{ text, expected string }{
		{"", "needs paths or patterns; found neither"},
		{"host: 'a b'\npaths: {/x: {repo: 'ssh://a/b', vcs: git}}", "host: \"a b\""},
		{"cache_max_age: -1\npaths: {/x: {repo: 'ssh://a/b', vcs: git}}", "cache_max_age: -1"},
		{"paths: {/x: {repo: 'ssh://a/b', vcs: cvs}}", "paths: /x: vcs: unknown \"cvs\"; one of bzr, fossil, git, hg, svn"},
		{"paths: {/x: {repo: 'ssh://a/b'}}", "paths: /x: vcs: does not follow from \"ssh://a/b\""},
		{"paths: {x: {repo: 'ssh://a/b', vcs: git}}", "paths: x: expected a path"},
		{"paths: {/x//: {repo: 'ssh://a/b', vcs: git}}", "paths: /x/: expected a path"},
		{"paths: {/x/: {repo: 'ssh://a/b', vcs: git}, /x: {repo: 'ssh://a/b', vcs: git}}", "paths: /x is listed with and without"},
		{"paths: {'/x y': {repo: 'ssh://a/b', vcs: git}}", "paths: /x y: not a valid import path"},
		{"paths: {/x: {repo: 'b', vcs: git}}", "paths: /x: repo: \"b\" is not the URL"},
		{"paths: {/x: {repo: 'ssh://a:secret@b/c', vcs: git}}", "must not contain a password"},
		{"paths: {/x: {repo: 'ssh://a/b', vcs: git, display: one}}", "display: expected three URLs"},
		{"paths: {/x: {repo: 'ssh://a/b', vcs: git, branch: main}}", "field branch not found"},
		{"pathes: {}", "field pathes not found"},
		{"patterns: {/x: {repo: 'ssh://a/{name}', vcs: git}}", "patterns: /x: expected one *"},
		{"patterns: {/*/x: {repo: 'ssh://a/{name}', vcs: git}}", "patterns: /*/x: expected one *"},
		{"patterns: {/*x*: {repo: 'ssh://a/{name}', vcs: git}}", "patterns: /*x*: expected one *"},
		{"patterns: {/x/*: {repo: 'ssh://a/b', vcs: git}}", "patterns: /x/*: repo: expected {name} once"},
		{"patterns: {/x/*: {repo: 'ssh://a/{name}', vcs: svm}}", "patterns: /x/*: vcs: unknown \"svm\""},
	} {
		_, err := parse([]byte(test.text))
		if err == nil || !strings.Contains(err.Error(), test.expected) {
			t.Errorf("%s\ngot %v, expected %s", test.text, err, test.expected)
		}
	}
}

func TestOverlappingPatternsAreRejected(t *testing.T) {
	for _, test := range []struct {
		one, other string
		overlap    bool
	}{
		{"/go/*", "/go/lib-*", true},
		{"/go/a*", "/go/*z", true},
		{"/go/*", "/go/x/*", true},
		{"/go/*", "/*", true},
		{"/go/a*", "/go/b*", false},
		{"/go/*a", "/go/*b", false},
		{"/go/*", "/team/*", false},
		{"/go/a*", "/go/b/*", false},
		{"/go/lib-*", "/go/lib/*", false},
	} {
		text := "patterns:\n  " + test.one + ": {repo: 'ssh://a/{name}', vcs: git}\n  " + test.other + ": {repo: 'ssh://b/{name}', vcs: git}\n"
		_, err := parse([]byte(text))
		if (err != nil) != test.overlap || (err != nil && !strings.Contains(err.Error(), "overlap")) {
			t.Errorf("%s and %s: %v", test.one, test.other, err)
		}
	}
}

func TestTheResponseIsWhatTheGoCommandExpects(t *testing.T) {
	answers := handler(configured(t, published))
	ask := func(at string) *httptest.ResponseRecorder {
		recorder := httptest.NewRecorder()
		answers.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, at, nil))
		return recorder
	}
	got := ask("http://mycompany.com/go/module7/v2?go-get=1")
	tag := `<meta name="go-import" content="mycompany.com/go/module7 git ssh://git@10.0.0.3:2222/module7">`
	if got.Code != http.StatusOK || !strings.Contains(got.Body.String(), tag) {
		t.Errorf("%d %s", got.Code, got.Body)
	}
	if strings.Contains(got.Body.String(), "go-source") {
		t.Errorf("a go-source tag without display: %s", got.Body)
	}
	if age := got.Header().Get("Cache-Control"); age != "public, max-age=60" {
		t.Errorf("Cache-Control: %s", age)
	}
	shown := ask("http://mycompany.com/go/old?go-get=1").Body.String()
	source := `<meta name="go-source" content="mycompany.com/go/old https://example.com https://example.com/tree/master{/dir} https://example.com/blob/master{/dir}/{file}#L{line}">`
	if !strings.Contains(shown, source) {
		t.Errorf("%s", shown)
	}
	if gone := ask("http://mycompany.com/nothing?go-get=1"); gone.Code != http.StatusNotFound {
		t.Errorf("%d", gone.Code)
	}
	config := configured(t, "paths: {/x: {repo: 'ssh://a/b', vcs: git}}")
	recorder := httptest.NewRecorder()
	handler(config).ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "http://b.example/x?go-get=1", nil))
	if !strings.Contains(recorder.Body.String(), `content="b.example/x git ssh://a/b"`) {
		t.Errorf("without a host: %s", recorder.Body)
	}
}
