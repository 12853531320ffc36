package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// zipped returns the zip of a module as `go mod download` makes it.
func zipped(t *testing.T, name, version string) []byte {
	t.Helper()
	folder := t.TempDir()
	for file, content := range map[string]string{"go.mod": "module " + name + "\n", "x.go": "package x\n"} {
		if err := os.WriteFile(filepath.Join(folder, file), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var made bytes.Buffer
	if err := zip.CreateFromDir(&made, module.Version{Path: name, Version: version}, folder); err != nil {
		t.Fatal(err)
	}
	return made.Bytes()
}

// answering returns a guard in front of an upstream that responds with this status and content, and may close the
// connection before the end of the content.
func answering(t *testing.T, status int, content []byte, breakOff bool) *Guard {
	t.Helper()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if breakOff {
			w.Header().Set("Content-Length", fmt.Sprint(2*len(content)))
		}
		w.WriteHeader(status)
		_, _ = w.Write(content)
	}))
	t.Cleanup(upstream.Close)
	base, err := url.Parse(upstream.URL + "/prefix")
	if err != nil {
		t.Fatal(err)
	}
	return &Guard{base: base, scratch: t.TempDir(), client: upstream.Client(), memory: newMemory()}
}

func ask(guard *Guard, at string) (int, string) {
	recorder := httptest.NewRecorder()
	guard.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, at, nil))
	body, _ := io.ReadAll(recorder.Body)
	return recorder.Code, string(body)
}

func TestValidResponsesPassUnchanged(t *testing.T) {
	for at, content := range map[string]string{
		"/a.example/!x/@v/v1.0.0.zip":                string(zipped(t, "a.example/X", "v1.0.0")),
		"/a.example/x/@v/v1.0.0.mod":                 "module a.example/x\n",
		"/a.example/x/@v/v1.0.0.info":                `{"Version":"v1.0.0","Time":"2024-01-02T03:04:05Z"}`,
		"/a.example/x/@v/main.info":                  `{"Version":"v1.0.1-0.20240102030405-abcdefabcdef","Time":"2024-01-02T03:04:05Z"}`,
		"/a.example/x/@latest":                       `{"Version":"v1.0.0"}`,
		"/a.example/x/@v/list":                       "v1.0.0\nv1.1.0 2024-01-02T03:04:05Z\n",
		"/a.example/empty/@v/list":                   "",
		"/a.example/%21x/@v/v2.0.0+incompatible.mod": "module a.example/X\n",
	} {
		if status, got := ask(answering(t, http.StatusOK, []byte(content), false), at); status != http.StatusOK || got != content {
			t.Errorf("%s: %d %.80q", at, status, got)
		}
	}
}

func TestInvalidResponsesDoNotPass(t *testing.T) {
	whole := zipped(t, "a.example/x", "v1.0.0")
	for _, test := range []struct {
		name, at string
		status   int
		content  []byte
		breakOff bool
		expected string
	}{
		{"half a zip", "v1.0.0.zip", 200, whole[:len(whole)/2], false, "a.example/x@v1.0.0 (zip): the upstream proxy sent an invalid response"},
		{"a zip whose connection is closed", "v1.0.0.zip", 200, whole, true, "the upstream proxy closed the connection after"},
		{"another version's zip", "v1.0.1.zip", 200, whole, false, "a.example/x@v1.0.1 (zip)"},
		{"a sign-in page", "v1.0.0.zip", 200, []byte("<html>"), false, "an invalid response"},
		{"an empty zip", "v1.0.0.zip", 200, nil, false, "an invalid response"},
		{"a page for a go.mod", "v1.0.0.mod", 200, []byte("<html>"), false, "it has no module line"},
		{"a page for an info", "v1.0.0.info", 200, []byte("<html>"), false, "not a JSON document"},
		{"an info without a version", "v1.0.0.info", 200, []byte(`{"Version":"newest"}`), false, "is not a version"},
		{"a page for a list", "list", 200, []byte("<html>"), false, "is not a version"},
		{"a failure", "v1.0.0.zip", 500, []byte("out of order\nfor now"), false, `responded with status 500: "out of order\nfor now"`},
		{"a redirection to nowhere", "v1.0.0.zip", 304, nil, false, "responded with status 304"},
	} {
		t.Run(test.name, func(t *testing.T) {
			guard := answering(t, test.status, test.content, test.breakOff)
			status, got := ask(guard, "/a.example/x/@v/"+test.at)
			if status != http.StatusBadGateway || !strings.Contains(got, test.expected) {
				t.Errorf("%d %s", status, got)
			}
			remaining, err := os.ReadDir(guard.scratch)
			if err != nil || len(remaining) != 0 {
				t.Errorf("files that remain: %v, %v", remaining, err)
			}
		})
	}
}

func TestAMissingModuleIsNotFound(t *testing.T) {
	for _, status := range []int{http.StatusNotFound, http.StatusGone} {
		got, body := ask(answering(t, status, []byte("never heard"), false), "/a.example/x/@v/list")
		if got != status || !strings.Contains(body, `a.example/x (list): not found upstream: "never heard"`) {
			t.Errorf("%d %s", got, body)
		}
	}
}

func TestInvalidPathsAreNotRequestedFromTheUpstream(t *testing.T) {
	guard := answering(t, http.StatusOK, []byte("secret"), false)
	for _, at := range []string{"/", "/a.example/x", "/a.example/X/@v/list", "/a.example/../etc/@v/list", "/a.example/x/@v/v1.0.0.exe",
		"/a.example/x/@x/v1.0.0.mod", "/a.example/x/@v/..%2f..%2fpasswd.info", "/@v/list"} {
		if status, body := ask(guard, at); status != http.StatusNotFound {
			t.Errorf("%s: %d %s", at, status, body)
		}
	}
}

func TestAnUnreachableUpstreamIsReported(t *testing.T) {
	guard := answering(t, http.StatusOK, nil, false)
	guard.base.Host = "127.0.0.1:1"
	status, body := ask(guard, "/a.example/x/@v/list")
	if status != http.StatusBadGateway || !strings.Contains(body, "a.example/x (list)") || !strings.Contains(body, "does not respond") {
		t.Errorf("%d %s", status, body)
	}
}

func TestEarlierResponsesAreUsedWhileTheUpstreamIsDown(t *testing.T) {
	for at, before := range map[string]answer{
		"/a.example/x/@v/list":      {http.StatusOK, []byte("v1.0.0\n")},
		"/a.example/@v/v1.0.0.info": {http.StatusNotFound, []byte("nothing")},
		"/a.example/x/@latest":      {http.StatusOK, []byte(`{"Version":"v1.0.0"}`)},
	} {
		guard := answering(t, before.status, before.content, false)
		status, body := ask(guard, at)
		guard.base.Host = "127.0.0.1:1"
		if again, bodyAgain := ask(guard, at); status != before.status || again != status || bodyAgain != body {
			t.Errorf("%s: %d %q, then %d %q", at, status, body, again, bodyAgain)
		}
		if other, _ := ask(guard, "/a.example/other/@v/list"); other != http.StatusBadGateway {
			t.Errorf("%d", other)
		}
	}
}

func TestMemoryIsBounded(t *testing.T) {
	memory := newMemory()
	for i := range rememberedAnswers + 10 {
		memory.keep(fmt.Sprint(i), answer{http.StatusOK, nil})
	}
	memory.keep("long", answer{http.StatusOK, make([]byte, rememberedBytes+1)})
	if _, known := memory.find("long"); known || len(memory.answers) != rememberedAnswers {
		t.Errorf("%d answers", len(memory.answers))
	}
	if _, known := memory.find(fmt.Sprint(rememberedAnswers + 9)); !known {
		t.Error("the newest response is not in memory")
	}
}
